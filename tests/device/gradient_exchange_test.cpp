// DDP's hook with buckets on a device over an engine that moves main memory, against the same buckets in main memory:
// the same bits.
#include <gtest/gtest.h>

#include "pretended_device.h"
#include "support/on_threads.h"
#include "support/refusal.h"
#include "torch/communication_hook.h"

namespace flockstep::torch_front::device_exchange_test {
namespace {

const std::vector<std::vector<std::int64_t>> kAsMade = {{7, 300, 1, 64, 1200}}, kRebuilt = {{1200, 1}, {64}, {300, 7}};
std::array<int, 5> parameters;  // whose addresses tell them apart

const void* parameter_of(std::int64_t size) {
  for (std::size_t i = 0; i < kAsMade[0].size(); ++i)
    if (kAsMade[0][i] == size) return &parameters[i];
  return nullptr;
}

struct Case {
  RuleChoice rule;
  at::ScalarType type = at::kFloat;
  int broken_step = -1;  // worker 1 has a NaN in it
};

GradientBucket bucket_of(const std::vector<std::int64_t>& sizes, int rank, int step, const Case& test,
                         at::Device device) {
  GradientBucket bucket;
  std::vector<at::Tensor> parts;
  for (const std::int64_t size : sizes) {
    const at::Tensor wave = torch::arange(size) * (1 + 0.3 * rank) + step + static_cast<double>(size);
    parts.push_back(torch::sin(wave).to(at::kFloat) + 0.1f * static_cast<float>(rank));
    if (step == test.broken_step && rank == 1 && size == 64) parts.back()[3] = NAN;
    bucket.parameters.push_back(parameter_of(size));
    bucket.sizes.push_back(static_cast<std::size_t>(size));
  }
  bucket.numbers = torch::cat(parts).to(test.type).to(device, /*non_blocking=*/true);
  return bucket;
}

struct Side {
  Side(runtime::Context& context, const Case& test, at::Device device)
      : rank(context.rank()),
        test(test),
        device(device),
        hook(context, {.rule = test.rule}, [](std::exception_ptr error) { return error; }) {}

  std::vector<CommunicationHook::Future> send(int step, std::size_t sent = 100) {
    const auto& buckets = step < 2 ? kAsMade : kRebuilt;
    std::vector<CommunicationHook::Future> futures;
    for (std::size_t b = 0; b < std::min(sent, buckets.size()); ++b) {
      GradientOffer offer;
      offer.bucket = bucket_of(buckets[b], rank, step, test, device);
      offer.buckets = buckets.size();
      futures.push_back(hook.add(std::move(offer)));
    }
    return futures;
  }

  at::Tensor step(int number) {
    std::vector<at::Tensor> results;
    for (const auto& future : send(number)) {
      future->waitAndThrow();
      const at::Tensor numbers = future->value().toTensor();
      EXPECT_EQ(numbers.device(), device);
      EXPECT_EQ(numbers.scalar_type(), test.type);
      results.push_back(numbers.cpu().to(at::kFloat));
    }
    return torch::cat(results);
  }

  const int rank;
  const Case& test;
  const at::Device device;
  CommunicationHook hook;
};

bool same_bits(const at::Tensor& x, const at::Tensor& y) {
  return x.nbytes() == y.nbytes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

std::vector<at::Tensor> results_of(runtime::Context& context, const Case& test, at::Device device, GradientNews& news) {
  Side side(context, test, device);
  std::vector<at::Tensor> results;
  for (int step = 0; step < 5; ++step) results.push_back(side.step(step));
  news = side.hook.news();
  return results;
}

TEST(DeviceExchange, givesTheBitsOfMainMemory) {
  const at::Device device = test::device();
  const std::vector<Case> cases{
      {{"mean", {}}},
      {{"adacons", {{"beta", "0.9"}}}},
      {{"adacons", {{"granularity", "tensor"}}}},
      {{"adacons", {{"wire", "bfloat16"}}}},
      {{"direction_consensus", {{"watch", "always"}}}},
      {{"adasum", {}}},
      {{"mean", {}}, at::kBFloat16},
      {{"adacons", {}}, at::kBFloat16},
      {{"adacons", {}}, at::kHalf},
      {{"adacons", {{"non_finite", "exclude"}}}, at::kFloat, 3},
  };
  for (const Case& test : cases)
    for (const int workers : {1, 2, 3})
      test::on_threads(workers, [&](runtime::Context& context) {
        GradientNews here, there;
        const auto expected = results_of(context, test, at::kCPU, here);
        const auto results = results_of(context, test, device, there);
        for (std::size_t step = 0; step < results.size(); ++step)
          EXPECT_TRUE(same_bits(results[step], expected[step]))
              << test.rule.name << " " << c10::toString(test.type) << " step " << step << " of " << workers;
        EXPECT_EQ(there.report.coefficients, here.report.coefficients);
        EXPECT_EQ(there.findings, here.findings);
        EXPECT_EQ(there.memory, here.memory);
      });
}

TEST(DeviceExchange, aPassThatBreaksOffFailsEverywhereAndTheNextOneGoesOn) {
  const at::Device device = test::device();
  const Case test{{"adacons", {}}};
  test::on_threads(2, [&](runtime::Context& context) {
    Side side(context, test, device), beside(context, test, at::kCPU);
    for (int step = 0; step < 3; ++step) EXPECT_TRUE(same_bits(side.step(step), beside.step(step)));
    for (Side* const each : {&side, &beside}) {
      const auto futures = each->send(3, context.rank() == 1 ? 1 : 100);
      if (context.rank() == 1) each->hook.abandon();
      for (const auto& future : futures) EXPECT_THROW(future->waitAndThrow(), Error);
    }
    EXPECT_TRUE(same_bits(side.step(4), beside.step(4)));
  });
}

TEST(DeviceExchange, workersMayHaveDevicesOrNone) {
  const at::Device device = test::device();
  const Case test{{"mean", {}}};
  test::on_threads(2, [&](runtime::Context& context) {
    Side side(context, test, context.rank() == 0 ? at::Device(at::kCPU) : device), beside(context, test, at::kCPU);
    for (int step = 0; step < 3; ++step) EXPECT_TRUE(same_bits(side.step(step), beside.step(step)));
  });
}

TEST(DeviceExchange, buffersInMainMemoryAreCounted) {
  const at::Device device = test::device();
  test::on_threads(1, [&](runtime::Context& context) {
    Side side(context, {{"mean", {}}}, device);
    side.step(0);
    EXPECT_EQ(context.engine().memory().held().at("gradients of a device"), 1572 * sizeof(float));
  });
}

TEST(DeviceExchange, gradientsOnTwoDevicesAreRefusedInOneSentence) {
  const at::Device device = test::device();
  const Case test{{"mean", {}}};
  test::on_threads(1, [&](runtime::Context& context) {
    Side side(context, test, device);
    side.step(0);
    GradientOffer other;
    other.bucket = bucket_of(kAsMade[0], 0, 1, test, at::kCPU);
    EXPECT_EQ(test::refusal([&] { side.hook.add(std::move(other)); }),
              "gradients are on several devices (" + device.str() + ", cpu): keep the model on one");
  });
}

}  // namespace
}  // namespace flockstep::torch_front::device_exchange_test
