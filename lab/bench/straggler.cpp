#include "bench/straggler.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "algorithms/registry.h"
#include "base/check.h"
#include "bench/workers.h"
#include "runs/run.h"

namespace flockstep::bench {
namespace {

constexpr const char* kMean = "mean";

std::optional<double> bar_of(std::string_view algorithm) {
  if (algorithm == "wagma") return 1.5;
  if (algorithm == "flock") return 1.7;
  return std::nullopt;
}

// Evaluations make everybody wait, so there is none on the way. One gradient per step: samples are easy to count.
runs::RunRequest request_of(const StragglerBenchOptions& options, const std::string& algorithm) {
  runs::RunRequest request;
  request.engine = options.engine;
  request.launch = options.launch;
  request.train.task = "linear";
  request.train.task_settings = {{"micro_batches", "1"}};
  request.train.algorithm = algorithm;
  request.train.steps = request.train.evaluate_every = options.steps;
  request.train.pace = options.pace;
  request.train.patience = kPatience;
  const auto has_period = [](const base::OptionSpec& spec) { return spec.name == "period"; };
  if (std::ranges::any_of(algorithms::find_algorithm(algorithm).options, has_period))
    request.train.algorithm_settings = {{"period", std::to_string(options.period)}};
  return request;
}

// Trains each time with another seed, and so with other workers late, but as its competitors do in the same round.
class Trainer {
 public:
  Trainer(const StragglerBenchOptions& options, const std::string& algorithm)
      : request_(request_of(options, algorithm)) {}

  const std::string& algorithm() const { return request_.train.algorithm; }
  const runs::RunOutcome& outcome() const { return outcome_; }  // of the last run
  double samples() const { return static_cast<double>(outcome_.options.batch * outcome_.options.steps); }

  void train() {
    outcome_ = runs::run(request_, {});
    ++request_.train.seed;
  }

 private:
  runs::RunRequest request_;
  runs::RunOutcome outcome_;
};

Throughput throughput_of(const Trainer& trainer, const Timings& timings) {
  std::vector<double> rates;
  for (const double seconds : timings.seconds_of(trainer.algorithm())) rates.push_back(trainer.samples() / seconds);
  return {.algorithm = trainer.algorithm(),
          .samples_per_s = spread_of(rates),
          .over_mean = timings.ratio(kMean, trainer.algorithm()),
          .wait_share = trainer.outcome().summary.wait_share};
}

}  // namespace

StragglerBench run_straggler_bench(const StragglerBenchOptions& options) {
  find_real_backend(options.engine);
  base::check(options.steps >= 1 && options.steps <= kMostStragglerSteps, "steps without a hidden barrier");
  std::vector<Trainer> trainers{{options, kMean}};
  for (const std::string& algorithm : options.algorithms)
    if (algorithm != kMean) trainers.emplace_back(options, algorithm);
  std::vector<Contender> contenders;
  for (Trainer& trainer : trainers) contenders.push_back({trainer.algorithm(), [&trainer] { trainer.train(); }});
  const Timings timings = run_interleaved(contenders, {.warm_up_rounds = 0, .rounds = options.rounds});

  StragglerBench result;
  result.workers = trainers[0].outcome().workers;
  result.rank = trainers[0].outcome().rank;
  for (const Trainer& trainer : trainers) {
    result.algorithms.push_back(throughput_of(trainer, timings));
    const auto bar = bar_of(trainer.algorithm());
    if (!bar) continue;
    const train::PaceOptions& pace = options.pace;
    result.targets.push_back(at_least(
        "W4",
        fmt::format("throughput of {} / mean, stragglers {}{} x {:.4g} ms, compute {:.4g} ms, tau = {}, {}, P = {}",
                    trainer.algorithm(), pace.independent_stragglers ? "independent, " : "", pace.random_stragglers,
                    1e3 * pace.random_delay.count(), 1e3 * pace.compute.count(), options.period, options.engine,
                    result.workers),
        result.algorithms.back().over_mean, *bar));
  }
  return result;
}

}  // namespace flockstep::bench
