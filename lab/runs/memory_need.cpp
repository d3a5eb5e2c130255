#include "runs/memory_need.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "algorithms/registry.h"
#include "base/text.h"
#include "flockstep/error.h"
#include "train/evaluator.h"

namespace flockstep::runs {
namespace {

constexpr double kModelAndGradient = 2;
constexpr double kEvaluation = 1;  // the average of models that differ, beside snapshots of them

std::string readable_bytes(double bytes) {
  return bytes >= 1e12 ? fmt::format("{:.3g} TB", bytes / 1e12) : fmt::format("{:.3g} GB", bytes / 1e9);
}

}  // namespace

double memory_need(const train::TrainOptions& options, const ModelSize& model, int workers) {
  const algorithms::AlgorithmRow& algorithm = algorithms::find_algorithm(options.algorithm);
  const bool averages =
      options.gradients && !algorithms::facts_of(algorithm, options.algorithm_settings, workers).replicas_are_equal;
  const double snapshots =
      std::min(static_cast<double>(train::most_snapshots(model.numbers, workers)),
               std::floor(static_cast<double>(options.steps - 1) / static_cast<double>(options.evaluate_every)));
  const double models = kModelAndGradient + (averages ? kEvaluation + snapshots : 0) +
                        algorithm.models_held(workers, options.algorithm_settings);
  return models * static_cast<double>(model.numbers * sizeof(float)) + static_cast<double>(model.optimizer_bytes) +
         algorithm.pair_bytes_held(workers, options.algorithm_settings);
}

void require_memory(const NeedOfOne& need_of_one, int workers, std::optional<std::uint64_t> available,
                    const std::string& ways) {
  const auto fits = [&](int count) { return need_of_one(count) * count <= static_cast<double>(*available); };
  if (!available || fits(workers)) return;
  int fitting = 0;
  for (int too_many = workers; fitting + 1 < too_many;) {
    const int middle = std::midpoint(fitting, too_many);
    (fits(middle) ? fitting : too_many) = middle;
  }
  throw Error(ErrorCode::bad_input,
              fmt::format("{} {} {} of memory, and {} are free: use {}{}", base::counted(workers, "worker"),
                          workers == 1 ? "needs" : "need", readable_bytes(need_of_one(workers) * workers),
                          readable_bytes(static_cast<double>(*available)),
                          fitting > 0 ? "up to " + base::counted(fitting, "worker") : "a smaller model",
                          ways.empty() ? "" : ", or " + ways));
}

}  // namespace flockstep::runs
