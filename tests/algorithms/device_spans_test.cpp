// A Synchronizer whose spans lie in the memory of a device, against the same in main memory. The device is a pretended
// one, and CUDA's where there is one: algorithms_test --gtest_filter=*DeviceSpans*
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>

#include "algorithms/registry.h"
#include "api/synchronizer.h"
#include "base/check.h"
#include "support/deferred_queue.h"
#include "support/on_threads.h"
#include "support/refusal.h"

namespace flockstep::device_spans_test {
namespace {

using kernels::Block;
using Floats = std::vector<float>;

// Memory that whoever touches it without a copy crashes on: addresses without pages, and what stands at them elsewhere.
class PretendedMemory {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 26;
  PretendedMemory() : place_(::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~PretendedMemory() { ::munmap(place_, kBytes); }
  PretendedMemory(const PretendedMemory&) = delete;
  PretendedMemory& operator=(const PretendedMemory&) = delete;

  bool has(const void* pointer) const { return offset(pointer) < kBytes; }
  std::byte* allocate(std::size_t bytes) {
    const std::size_t begin = content_.size();
    base::check(begin + bytes <= kBytes, "memory on the pretended device");
    content_.resize(begin + bytes);
    return static_cast<std::byte*>(place_) + begin;
  }
  void* behind(const void* pointer) {
    return has(pointer) ? content_.data() + offset(pointer) : const_cast<void*>(pointer);
  }

 private:
  std::size_t offset(const void* pointer) const {
    return reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(place_);
  }
  void* place_;
  std::vector<std::byte> content_;
};

// Copies are done late: when they were asked about a few times. All other work would crash on this memory.
class PretendedQueue final : public test::DeferredQueue {
 public:
  explicit PretendedQueue(std::shared_ptr<PretendedMemory> memory) : memory_(std::move(memory)) {}

  std::string_view device() const override { return "pretended"; }
  Block allocate(std::size_t bytes) override { return {memory_, memory_->allocate(bytes)}; }
  Block allocate_on_host(std::size_t bytes) override {
    auto numbers = std::make_shared<std::vector<std::byte>>(bytes, std::byte{0xFF});  // NaN, unless they are fetched
    return {numbers, numbers->data()};
  }
  std::function<bool()> mark() override {
    return [this, asked = 0]() mutable {
      if (++asked < 3) return false;
      for (const auto& work : waiting_) work();
      waiting_.clear();
      return true;
    };
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    push([this, to, from, bytes] { std::memcpy(memory_->behind(to), memory_->behind(from), bytes); });
  }
  void follow(Queue&) override { base::check(false, "copies alone"); }

 private:
  void push(std::function<void()> work) override { waiting_.push_back(std::move(work)); }
  const std::shared_ptr<PretendedMemory> memory_;
  std::vector<std::function<void()>> waiting_;
};

runtime::Devices pretended() {
  const auto memory = std::make_shared<PretendedMemory>();
  return {[memory](const void* pointer) { return memory->has(pointer) ? std::optional(0) : std::nullopt; },
          [memory](int) { return std::make_unique<PretendedQueue>(memory); }};
}

// A span of one worker: in main memory, or on the device.
class Numbers {
 public:
  Numbers(const runtime::Devices* devices, runtime::Context& context, std::size_t size)
      : context_(context), size_(size), values_(size) {
    if (!devices) return;
    queue_ = devices->make_queue(0);
    block_ = queue_->allocate(size * sizeof(float));
    through_ = queue_->allocate_on_host(size * sizeof(float));
  }
  std::span<float> span() {
    return queue_ ? std::span(reinterpret_cast<float*>(block_.get()), size_) : std::span(values_);
  }
  void write(const Floats& values) {
    values_ = values;
    if (!queue_) return;
    std::memcpy(through_.get(), values.data(), size_ * sizeof(float));
    copy(block_.get(), through_.get());
  }
  Floats read() {
    if (!queue_) return values_;
    copy(through_.get(), block_.get());
    std::memcpy(values_.data(), through_.get(), size_ * sizeof(float));
    return values_;
  }

 private:
  void copy(void* to, const void* from) {
    queue_->copy(to, from, size_ * sizeof(float));
    context_.poll_for(queue_->mark(), "a copy");
  }
  runtime::Context& context_;
  std::size_t size_;
  std::unique_ptr<kernels::Queue> queue_;
  Block block_, through_;
  Floats values_;
};

constexpr std::size_t kParameters = 3001, kBuffers = 5;
constexpr int kSteps = 6;

Floats gradient_of(int rank, int step) {
  Floats values(kParameters);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i) * (1.0f + 0.3f * static_cast<float>(rank)) + static_cast<float>(step));
  return values;
}

struct Where {
  const runtime::Devices* gradients = nullptr;
  const runtime::Devices* models = nullptr;
  bool announces = false;
};

// Every gradient as the optimizer sees it, and every model.
std::vector<Floats> trained(runtime::Context& context, const std::string& algorithm, const runtime::Devices& devices,
                            const Where& where) {
  std::vector<Floats> seen;
  Numbers gradient(where.gradients, context, kParameters), model(where.models, context, kParameters + kBuffers);
  Synchronizer::Implementation synchronizer(context, algorithm, {kParameters}, {}, {.buffers = kBuffers}, devices);
  Floats values(kParameters + kBuffers, 0.5f);
  model.write(values);
  synchronizer.begin(model.span());
  const auto update = [&](const Floats& by) {
    values = model.read();
    for (std::size_t i = 0; i < by.size(); ++i) values[i] -= 0.25f * by[i];
    values.back() += static_cast<float>(context.rank());
    model.write(values);
  };
  for (int step = 0; step < kSteps; ++step) {
    gradient.write(gradient_of(context.rank(), step));
    if (where.announces) {
      synchronizer.ready(gradient.span(), 1000, kParameters - 1000);
      synchronizer.ready(gradient.span(), 0, 1000);
    }
    synchronizer.after_backward(gradient.span(), 1);
    seen.push_back(gradient.read());
    update(seen.back());
    synchronizer.after_update(model.span());
    seen.push_back(model.read());
  }
  gradient.write(Floats(kParameters, 7.0f));
  if (synchronizer.drain(gradient.span()))
    update(gradient.read());
  else
    EXPECT_EQ(gradient.read(), Floats(kParameters, 7.0f)) << algorithm;
  synchronizer.consolidate(model.span());
  seen.push_back(model.read());
  return seen;
}

class DeviceSpans : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cuda" && kernels::cuda::device_count() == 0) GTEST_SKIP() << kernels::cuda::why_unavailable();
  }
  // On threads each worker has its own, and with it memory of its own.
  static runtime::Devices devices() { return GetParam() == "cuda" ? runtime::Devices{} : pretended(); }
};

TEST_P(DeviceSpans, giveTheBitsOfMainMemoryWhereWorkersWaitForEachOther) {
  for (const algorithms::AlgorithmRow& row : algorithms::algorithms()) {
    const algorithms::Facts facts = algorithms::facts_of(row, {}, 2);
    if (facts.needs_begin) continue;
    test::on_threads(2, [&](runtime::Context& context) {
      const runtime::Devices there = devices();
      const std::string name(row.name);
      const auto expected = trained(context, name, there, {});
      for (const Where& where :
           {Where{&there, &there}, Where{&there, nullptr}, Where{nullptr, &there}, Where{&there, &there, true}}) {
        const auto result = trained(context, name, there, where);
        for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(result[i], expected[i]) << name << " at " << i;
      }
    });
  }
}

// Who meets whom is up to the clock there. In the end all hold the same.
TEST_P(DeviceSpans, serveAlgorithmsThatWaitForNobody) {
  for (const algorithms::AlgorithmRow& row : algorithms::algorithms()) {
    if (!algorithms::facts_of(row, {}, 2).needs_begin) continue;
    std::vector<Floats> ends(2);
    test::on_threads(2, [&](runtime::Context& context) {
      const runtime::Devices there = devices();
      ends[static_cast<std::size_t>(context.rank())] =
          trained(context, std::string(row.name), there, {&there, &there}).back();
    });
    EXPECT_EQ(ends[0], ends[1]) << row.name;
    for (const float value : ends[0]) ASSERT_LT(std::abs(value), 20.0f) << row.name;
  }
}

TEST_P(DeviceSpans, reduceScatterGivesThePartOnTheDevice) {
  test::on_threads(2, [&](runtime::Context& context) {
    const runtime::Devices there = devices();
    Floats expected = gradient_of(context.rank(), 0);
    Synchronizer::Implementation here(context, "adacons", {kParameters}, {}, {}, there),
        staged(context, "adacons", {kParameters}, {}, {}, there);
    const std::span<float> own = here.reduce_scatter(expected, 1);
    Numbers gradient(&there, context, kParameters);
    gradient.write(gradient_of(context.rank(), 0));
    const std::span<float> part = staged.reduce_scatter(gradient.span(), 1);
    ASSERT_EQ(part.size(), own.size());
    EXPECT_EQ(part.data() - gradient.span().data(), own.data() - expected.data());
    const Floats values = gradient.read();
    EXPECT_TRUE(std::ranges::equal(
        std::span(values).subspan(static_cast<std::size_t>(own.data() - expected.data()), own.size()), own));
    EXPECT_EQ(context.engine().memory().held().at("gradient of a device"), kParameters * sizeof(float));
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSpans, testing::Values("pretended", "cuda"),
                         [](const auto& info) { return info.param; });

TEST(DeviceSpansTrouble, aDeviceThatCannotBeUsedIsOneSentence) {
  test::on_threads(1, [&](runtime::Context& context) {
    runtime::Devices devices = pretended();
    Numbers gradient(&devices, context, 10);
    devices.make_queue = [](int) -> std::unique_ptr<kernels::Queue> {
      throw Error(ErrorCode::unavailable, "there is no driver");
    };
    Synchronizer::Implementation mean(context, "mean", {10}, {}, {}, devices);
    EXPECT_EQ(test::refusal(ErrorCode::unavailable, [&] { mean.after_backward(gradient.span(), 1); }),
              "there is no driver");
    Floats in_main_memory(10, 2.0f);
    mean.after_backward(in_main_memory, 1);
    EXPECT_EQ(in_main_memory, Floats(10, 2.0f));
  });
}

}  // namespace
}  // namespace flockstep::device_spans_test
