// A task in closed form, and a way to train it on threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/files.h"
#include "engines/threads/backend.h"
#include "support/temporary_folder.h"
#include "train/loop.h"

namespace flockstep::train {

inline constexpr std::size_t kParameters = 1003;
inline constexpr float kRate = 0.1f;

// Worker i pulls every weight towards i: the mean gradient pulls towards the mean, in closed form.
class Pull : public Task {
 public:
  Pull(int rank, std::int64_t poisoned_step) : target_(static_cast<float>(rank)), poisoned_step_(poisoned_step) {}

  std::size_t parameters() const override { return kParameters; }
  std::int64_t samples_per_step() const override { return 10; }
  Metric metric() const override { return {"distance", true}; }
  void initialise(std::span<float> model) override { std::ranges::fill(model, 8.0f); }
  double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                  const RangeReady& ready) override {
    for (std::size_t i = 0; i < model.size(); ++i) gradient[i] = model[i] - target_;
    if (step == poisoned_step_) gradient[5] = std::nanf("");
    for (std::size_t end = model.size(); end > 0;) {  // in pieces, last first, as a backward pass does
      const std::size_t size = std::min<std::size_t>(end, 17);
      end -= size;
      ready(end, size);
    }
    return model[0] - target_;
  }
  std::unique_ptr<Optimizer> make_optimizer() override {
    struct Descent final : Optimizer {
      void update(std::span<float> model, std::span<const float> gradient) override {
        for (std::size_t i = 0; i < model.size(); ++i) model[i] -= kRate * gradient[i];
      }
    };
    return std::make_unique<Descent>();
  }
  std::vector<double> evaluate(std::span<const float> model, Split /*split*/) override { return {model[0], 1.0}; }
  double quality(std::span<const double> records) const override {
    double sum = 0;
    for (std::size_t i = 0; i < records.size(); i += 2) sum += records[i];
    return 2 * sum / static_cast<double>(records.size());
  }

 private:
  float target_;
  std::int64_t poisoned_step_;
};

class PullTest : public testing::Test {
 protected:
  PullTest() {
    options_.task = "pull";
    options_.steps = 30;
    options_.evaluate_every = 10;
    options_.patience = base::Duration(600);
  }

  // Rank 0's summary. Without an algorithm, that of the options.
  telemetry::Summary run(int workers, const Observer& observer = {},
                         const algorithms::AlgorithmRow* algorithm = nullptr) {
    launch_.workers = workers;
    std::mutex mutex;
    std::optional<telemetry::Summary> summary;
    engines::threads::run(launch_, [&](engines::Engine& engine) {
      const base::Time begin = engine.now();
      const auto make = [&](int rank, int) { return make_task(rank); };
      telemetry::Summary mine =
          algorithm ? train(engine, options_, *algorithm, make, observer) : train(engine, options_, make, observer);
      const std::lock_guard lock(mutex);
      if (engine.rank() != 0) return;
      summary = mine;
      wall_s_ = (engine.now() - begin).count();
    });
    return *summary;
  }

  virtual std::unique_ptr<Task> make_task(int rank) {
    return std::make_unique<Pull>(rank, rank == 1 ? poisoned_step_ : -1);
  }

  std::vector<nlohmann::json> lines(std::string_view kind) const {
    std::vector<nlohmann::json> found;
    std::istringstream metrics(base::read_text(folder_ / "metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);)
      if (auto json = nlohmann::json::parse(line); json.at("kind") == kind) found.push_back(std::move(json));
    return found;
  }

  TrainOptions options_;
  engines::LaunchOptions launch_;
  double wall_s_ = 0;                // of the last run, from its begin to its end on worker 0
  std::int64_t poisoned_step_ = -1;  // in which worker 1's gradient is not finite
  const test::TemporaryFolder folder_;
};

}  // namespace flockstep::train
