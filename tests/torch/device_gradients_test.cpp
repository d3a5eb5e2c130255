// DataParallel where gradients stay on a device, without a GPU: a thread stands for the device, and an engine's
// messages for NCCL. The oracle is the same training in main memory.
#include "torch/device_gradients.h"

#include <filesystem>
#include <limits>
#include <set>

#include "base/files.h"
#include "host_place.h"
#include "support/on_threads.h"
#include "support/temporary_folder.h"
#include "torch/data_parallel.h"
#include "training.h"

namespace flockstep::test::device_gradients_test {
namespace {

using torch_front::layout_on_device;
enum class Where { main_memory, device };
using Made = DataParallel::Implementation;

// A worker's module, optimizer and DataParallel.
struct Side {
  Side(runtime::Context& context, const DataParallelSettings& settings, Where where,
       const std::string& optimizer_name = "SGD")
      : rank(context.rank()), optimizer(make_optimizer(optimizer_name, net)) {
    const auto way = [this](const Made&) -> torch_front::MakePlace {
      return [this] {
        auto made = std::make_unique<HostPlace>();
        place = made.get();
        return made;
      };
    };
    parallel = where == Where::device ? std::make_unique<Made>(context, alive, net, settings, way)
                                      : std::make_unique<Made>(context, alive, net, settings);
  }

  void backward(int number) {
    optimizer->zero_grad();
    net.demands = number % 2 == 0 || rank > 0;
    loss_of(net, batch_of(rank, number, 4)).backward();
  }
  void finish() {
    parallel->finish_backward(parallel->settings.algorithm == "weighted_mean" ? rank + 1.0 : 1);
    parallel->update(*optimizer);
    parallel->after_update();
  }
  void step(int number) {
    backward(number);
    finish();
  }

  const int rank;
  int alive = 0;
  Net net;
  Optimizer optimizer;
  HostPlace* place = nullptr;
  std::unique_ptr<Made> parallel;
};

void on_contexts(int workers, const std::function<void(runtime::Context&)>& body) {
  torch::set_num_threads(1);
  on_threads(workers, body);
}

void expect_alike(int workers, const DataParallelSettings& settings) {
  SCOPED_TRACE(settings.algorithm + " of " + std::to_string(workers));
  on_contexts(workers, [&](runtime::Context& context) {
    Side device(context, settings, Where::device), host(context, settings, Where::main_memory);
    for (int step = 0; step < 5; ++step) {
      device.step(step);
      host.step(step);
      expect_near(numbers(device.net), numbers(host.net), 1e-6);
      EXPECT_EQ(device.net.on_demand->weight.grad().defined(), host.net.on_demand->weight.grad().defined());
      EXPECT_FALSE(device.net.unused->weight.grad().defined());
    }
    EXPECT_EQ(device.parallel->session->steps().count(), 5);
    const StepReport one = device.parallel->report(), other = host.parallel->report();
    EXPECT_EQ(one.guards, other.guards);
    ASSERT_EQ(one.coefficients.size(), static_cast<std::size_t>(workers));
    for (std::size_t i = 0; i < other.coefficients.size(); ++i)
      EXPECT_NEAR(one.coefficients[i], other.coefficients[i], 1e-6);
  });
}

TEST(DeviceGradients, trainAsInMainMemoryUnderEveryRule) {
  for (const char* const rule :
       {"mean", "weighted_mean", "adacons", "direction_consensus", "geometric_median", "adasum"})
    for (const int workers : {1, 2, 3})
      for (const char* const guard : {"0", "1000"})
        expect_alike(workers, {.algorithm = rule, .options = {{"guard", guard}}, .bucket_kib = 1});
}

TEST(DeviceGradients, takeEveryGranularity) {
  for (const char* const granularity : {"model", "bucket", "tensor"})
    expect_alike(3, {.algorithm = "adacons", .options = {{"granularity", granularity}}, .bucket_kib = 1});
  expect_alike(2, {.algorithm = "direction_consensus", .bucket_kib = 4096});
}

TEST(DeviceGradients, haveTheSectionsOfMainMemory) {
  const std::vector<std::size_t> tensors{700, 0, 5, 300, 2000, 0, 1, 0};
  for (const auto granularity :
       {runtime::Granularity::model, runtime::Granularity::bucket, runtime::Granularity::tensor}) {
    const runtime::Layout layout = layout_on_device(tensors, 256, granularity);
    EXPECT_EQ(runtime::Sections(layout, granularity).sizes(),
              runtime::Sections(runtime::Layout(tensors, 256), granularity).sizes());
    std::size_t end = 0;
    for (const runtime::Range& bucket : layout.buckets()) {
      EXPECT_GT(bucket.size, 0u);
      EXPECT_EQ(bucket.begin, end);
      end = bucket.end();
      if (granularity == runtime::Granularity::model) {
        EXPECT_EQ(bucket.begin % 256, 0u);
      }
    }
    EXPECT_EQ(end, layout.size());
  }
}

// The first pass tells which buckets are complete first, by which the second one is laid out.
TEST(DeviceGradients, setOutInBackwardFromTheThirdPassOnUnlessWeightsCount) {
  for (const char* const rule : {"adacons", "weighted_mean"})
    on_contexts(2, [&](runtime::Context& context) {
      Side side(context, {.algorithm = rule, .bucket_kib = 1}, Where::device);
      const auto all = static_cast<int>(side.parallel->layout.buckets().size());
      ASSERT_GT(all, 1);
      for (int step = 0; step < 4; ++step) {
        const int before = side.place->buckets;
        side.backward(2 * step);
        const int in_backward = side.place->buckets - before;
        EXPECT_EQ(in_backward > 0, step > 1 && std::string(rule) == "adacons") << rule << " in step " << step;
        side.finish();
        EXPECT_EQ(side.place->buckets - before, all);
      }
    });
}

// Autograd works in the streams that forward passes worked in.
TEST(DeviceGradients, travelBehindEveryStreamThatHasMadeAPart) {
  on_contexts(2, [](runtime::Context& context) {
    Side side(context, {.algorithm = "adacons", .bucket_kib = 4}, Where::device);
    for (int step = 0; step < 3; ++step) side.step(step);
    side.place->alternates = true;
    side.place->calls.take();
    side.step(4);
    std::set<std::string> makers, followed;
    std::size_t most = 0;
    std::string calls = side.place->calls.take();
    for (std::size_t end; (end = calls.find('\n')) != std::string::npos; calls.erase(0, end + 1)) {
      const std::string line = calls.substr(0, end);
      if (line.starts_with("asked for ")) makers.insert(line.substr(10));
      if (line.starts_with("queue: follow ")) followed.insert(line.substr(14));
      if (!line.starts_with("exchange:")) continue;
      EXPECT_EQ(followed, makers);
      most = std::max(most, makers.size());
      makers.clear(), followed.clear();
    }
    EXPECT_EQ(most, 2u);
  });
}

TEST(DeviceGradients, leaveOutWhoHasNoBatch) {
  for (const char* const rule : {"mean", "adacons"})
    on_contexts(3, [&](runtime::Context& context) {
      const DataParallelSettings settings{.algorithm = rule, .bucket_kib = 1};
      Side device(context, settings, Where::device), host(context, settings, Where::main_memory);
      for (Side* const side : {&device, &host}) {
        side->parallel->epoch = {{1, 2, 3}};
        for (int step = 0; step < 3; ++step) step <= context.rank() ? side->step(step) : side->finish();
        EXPECT_TRUE(side->parallel->epoch.steps.empty());
        side->step(3);
      }
      expect_near(numbers(device.net), numbers(host.net), 1e-6);
    });
}

TEST(DeviceGradients, countAResultThatIsNotFiniteOnce) {
  const std::map<std::string, std::string> looks, looks_not{{"guard", "0"}, {"watch", "never"}};
  for (const auto& [rule, options] :
       {std::pair{"adacons", looks}, std::pair{"mean", looks}, std::pair{"mean", looks_not}})
    on_contexts(2, [&, rule = rule, options = options](runtime::Context& context) {
      Side side(context, {.algorithm = rule, .options = options}, Where::device);
      side.step(0);
      side.backward(1);
      if (context.rank() == 1) side.net.head->bias.mutable_grad().fill_(std::numeric_limits<float>::quiet_NaN());
      const auto before = numbers(side.net.head->weight);
      side.finish();
      EXPECT_EQ(numbers(side.net.head->weight), before);
      EXPECT_EQ(side.parallel->report().guards.at("non_finite"), 1) << rule;
      side.step(2);
      EXPECT_NE(numbers(side.net.head->weight), before);
      EXPECT_EQ(side.parallel->report().guards.at("non_finite"), 1) << rule;
      EXPECT_EQ(side.parallel->session->steps().count(), 3);
    });
}

// A checkpoint may come from either and go to either.
TEST(DeviceGradients, goOnFromACheckpointOfEither) {
  const TemporaryFolder folder;
  const auto device = Where::device, host = Where::main_memory;
  for (const char* const granularity : {"model", "bucket", "tensor"})
    for (const char* const rule : {"mean", "adacons"})
      for (const auto& [from, to] : {std::pair{device, device}, std::pair{device, host}, std::pair{host, device}})
        on_contexts(3, [&, from = from, to = to](runtime::Context& context) {
          const DataParallelSettings settings{
              .algorithm = rule, .options = {{"granularity", granularity}}, .bucket_kib = 1};
          Side whole(context, settings, from, "Adam"), rest(context, settings, to, "Adam");
          for (int step = 0; step < 3; ++step) whole.step(step);
          whole.parallel->save(folder.string(), *whole.optimizer);
          EXPECT_EQ(rest.parallel->restore(folder.string(), *rest.optimizer), "");
          EXPECT_EQ(rest.parallel->report().guards, whole.parallel->report().guards);
          for (int step = 3; step < 6; ++step) whole.step(step), rest.step(step);
          expect_near(numbers(rest.net), numbers(whole.net), from == to ? 0 : 1e-6);
        });
}

}  // namespace
}  // namespace flockstep::test::device_gradients_test
