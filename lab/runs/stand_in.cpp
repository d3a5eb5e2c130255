#include "runs/stand_in.h"

#include <algorithm>
#include <limits>

namespace flockstep::runs {
namespace {

constexpr std::int64_t kNumbers = 1 << 14;      // enough for sweeps over them to cost nothing, ...
constexpr std::int64_t kMostNumbers = 1 << 18;  // ... and where many workers have many buckets
constexpr std::int64_t kMostBuckets = 256;

class NoOptimizer final : public train::Optimizer {
 public:
  void update(std::span<float> /*model*/, std::span<const float> /*gradient*/) override {}
};

class StandIn final : public train::Task {
 public:
  StandIn(std::size_t numbers, std::int64_t samples) : numbers_(numbers), samples_(samples) {}

  std::size_t parameters() const override { return numbers_; }
  std::int64_t samples_per_step() const override { return samples_; }
  train::Metric metric() const override { return {"", true}; }
  void initialise(std::span<float> model) override { std::ranges::fill(model, 0.0f); }
  // Ones: rules give up on zeros, and denormals are slow. What is averaged mostly stays what it was, so that a large
  // gradient need not be written again in a step whose time is measured.
  double gradient(std::int64_t /*step*/, std::span<float> /*model*/, std::span<float> gradient,
                  const RangeReady& ready) override {
    const auto is_lost = [](float value) { return !(value > 0.5f && value < 2.0f); };
    if (is_lost(gradient.front()) || is_lost(gradient.back())) std::ranges::fill(gradient, 1.0f);
    ready(0, gradient.size());
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::unique_ptr<train::Optimizer> make_optimizer() override { return std::make_unique<NoOptimizer>(); }
  std::vector<double> evaluate(std::span<const float> /*model*/, train::Split /*split*/) override { return {}; }
  double quality(std::span<const double> /*records*/) const override { return 0; }

 private:
  std::size_t numbers_;
  std::int64_t samples_;
};

std::int64_t rounded_up(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

}  // namespace

StandInSize stand_in_size(std::int64_t parameters, std::int64_t bucket_kib, int workers) {
  const auto bucket = bucket_kib * 1024 / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t most = std::clamp<std::int64_t>(kMostNumbers / workers, 1, kMostBuckets),
                     buckets = std::min(rounded_up(parameters, bucket), most), evenly = buckets * workers,
                     numbers = evenly * std::max<std::int64_t>(1, kNumbers / evenly);
  return {static_cast<std::size_t>(std::min(numbers, parameters)), buckets};
}

std::unique_ptr<train::Task> make_stand_in(std::size_t numbers, std::int64_t samples_per_step) {
  return std::make_unique<StandIn>(numbers, samples_per_step);
}

}  // namespace flockstep::runs
