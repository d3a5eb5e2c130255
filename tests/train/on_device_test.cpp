// The loop with a task whose model is on a device: here a place beside the loop's spans, which nothing else copies to.
#include "train/on_device.h"

#include "kernels/cpu/queue.h"
#include "train/pull.h"

namespace flockstep::train {
namespace {

struct Counts {
  int fetched = 0, put = 0, put_gradients = 0;  // of worker 0
};

class PullOnDevice final : public Pull, private OnDevice {
 public:
  PullOnDevice(int rank, std::int64_t poisoned_step, bool can_merge, Counts* counts)
      : Pull(rank, poisoned_step), can_merge_(can_merge), counts_(counts) {
    device_model_ = {.numbers = numbers_,
                     .beside = &queue_,
                     .current = [this]() -> kernels::Queue& { return queue_; },
                     .allocate = [this](std::size_t bytes) { return queue_.allocate(bytes); }};
  }

  OnDevice* on_device() override { return this; }
  void initialise(std::span<float> model) override {
    Pull::initialise(numbers_);
    std::ranges::copy(numbers_, model.begin());
  }
  double gradient(std::int64_t step, std::span<float>, std::span<float> gradient, const RangeReady& ready) override {
    const double loss = Pull::gradient(step, numbers_, gradient_, [](auto, auto) {});
    std::ranges::copy(std::span(gradient_).first(gradient.size()), gradient.begin());
    ready(0, gradient_.size());
    return loss;
  }
  std::unique_ptr<Optimizer> make_optimizer() override {
    struct Descent final : Optimizer {
      explicit Descent(PullOnDevice& task) : task(task) {}
      void update(std::span<float>, std::span<const float>) override {
        for (std::size_t i = 0; i < kParameters; ++i) task.numbers_[i] -= kRate * task.gradient_[i];
      }
      PullOnDevice& task;
    };
    return std::make_unique<Descent>(*this);
  }

 private:
  base::Buffer<float> pinned(base::Memory& memory, std::size_t size, const std::string& purpose) override {
    return memory.allocate<float>(size, purpose);
  }
  void attach(std::span<float> model, std::span<float> gradient) override { mirror_ = model, of_gradient_ = gradient; }
  void fetch_model() override {
    if (counts_) ++counts_->fetched;
    std::ranges::copy(numbers_, mirror_.begin());
  }
  void put_model() override {
    if (counts_) ++counts_->put;
    std::ranges::copy(mirror_, numbers_.begin());
  }
  void put_gradient() override {
    if (counts_ && !of_gradient_.empty()) ++counts_->put_gradients;
    std::ranges::copy(of_gradient_, gradient_.begin());
  }
  bool gradient_is_finite() const override {
    return std::ranges::all_of(gradient_, [](float value) { return std::isfinite(value); });
  }
  const runtime::DeviceModel* device_model() override { return can_merge_ ? &device_model_ : nullptr; }

  const bool can_merge_;
  Counts* const counts_;
  std::vector<float> numbers_ = std::vector<float>(kParameters), gradient_ = std::vector<float>(kParameters);
  std::span<float> mirror_, of_gradient_;
  kernels::cpu::Queue queue_;
  runtime::DeviceModel device_model_;
};

class OnDeviceTest : public PullTest {
 protected:
  OnDeviceTest() {
    options_.evaluate_every = options_.steps;
    launch_.deterministic = true;
  }
  std::unique_ptr<Task> make_task(int rank) override {
    const std::int64_t poisoned = rank == 1 ? poisoned_step_ : -1;
    if (!is_on_device_) return std::make_unique<Pull>(rank, poisoned);
    return std::make_unique<PullOnDevice>(rank, poisoned, can_merge_, rank == 0 ? &counts_ : nullptr);
  }
  // And leaves the counts of the latter.
  void expect_the_same_as_in_main_memory() {
    is_on_device_ = false;
    const telemetry::Summary here = run(3);
    is_on_device_ = true;
    counts_ = {};
    const telemetry::Summary there = run(3);
    EXPECT_EQ(there.model_hash, here.model_hash) << options_.algorithm;
    EXPECT_EQ(there.quality, here.quality) << options_.algorithm;
    EXPECT_EQ(there.replicas_equal, here.replicas_equal) << options_.algorithm;
    EXPECT_EQ(there.skipped_steps, here.skipped_steps) << options_.algorithm;
  }

  bool is_on_device_ = true, can_merge_ = false;
  Counts counts_;
};

TEST_F(OnDeviceTest, everyAlgorithmGivesTheSameAsInMainMemoryEvenWhereAGradientIsNotFinite) {
  for (const auto& row : algorithms::algorithms())
    for (const std::int64_t poisoned : {-1, 3}) {
      options_.algorithm = row.name;
      poisoned_step_ = poisoned;
      expect_the_same_as_in_main_memory();
    }
}

TEST_F(OnDeviceTest, onlyWhatIsNeededIsCopied) {
  options_.algorithm = "mean";
  expect_the_same_as_in_main_memory();
  EXPECT_EQ(counts_.put_gradients, 30);
  EXPECT_LE(counts_.fetched, 4) << "evaluations and the end";

  options_.algorithm = "local_sgd";
  options_.algorithm_settings = {{"period", "10"}};
  expect_the_same_as_in_main_memory();
  EXPECT_EQ(counts_.put_gradients, 0);
  EXPECT_LE(counts_.fetched, 3 + 4);
  EXPECT_LE(counts_.put, 3 + 1);

  options_.faults = parse_faults("2:scale:2");
  expect_the_same_as_in_main_memory();
  EXPECT_EQ(counts_.put_gradients, 30) << "faults are in main memory";
}

TEST_F(OnDeviceTest, flockMergesThere) {
  can_merge_ = true;
  options_.algorithm = "flock";
  is_on_device_ = true;
  const telemetry::Summary summary = run(3);
  EXPECT_TRUE(summary.replicas_equal);
  EXPECT_NEAR(summary.quality, 1 + 7 * std::pow(0.9, 30), 0.2) << "as the mean has it, about";
  EXPECT_LE(counts_.fetched, 4);
  EXPECT_EQ(counts_.put, 0);
}

TEST_F(OnDeviceTest, aRunGoesOnInMainMemoryAndBack) {
  options_.out = folder_;
  options_.checkpoint_every = 10;
  for (const char* name : {"local_sgd", "mean"}) {
    options_.algorithm = name;
    options_.resume = is_on_device_ = false;
    const std::string hash = run(3).model_hash;
    for (const bool begins_on_device : {true, false}) {
      std::filesystem::remove_all(folder_);
      options_.resume = false;
      is_on_device_ = begins_on_device;
      run(3, {.may_take_step = [](std::int64_t step) { return step <= 10; }});
      options_.resume = true;
      is_on_device_ = !begins_on_device;
      EXPECT_EQ(run(3).model_hash, hash) << name;
    }
    std::filesystem::remove_all(folder_);
  }
}

}  // namespace
}  // namespace flockstep::train
