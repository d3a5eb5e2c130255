#include "tasks/memory_need.h"

#include <fmt/core.h>

#include "algorithms/registry.h"
#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

constexpr double kModelAndGradient = 2;
constexpr double kEvaluation = 1;  // the average of models that differ

std::string readable_bytes(double bytes) {
  return bytes >= 1e12 ? fmt::format("{:.3g} TB", bytes / 1e12) : fmt::format("{:.3g} GB", bytes / 1e9);
}

}  // namespace

double memory_need(const train::TrainOptions& options, const ModelSize& model, int workers) {
  const algorithms::AlgorithmRow& algorithm = algorithms::find_algorithm(options.algorithm);
  const bool averages = options.gradients && workers > 1 && algorithm.family != algorithms::Family::gradient;
  const double models =
      kModelAndGradient + (averages ? kEvaluation : 0) + algorithm.models_held(workers, options.algorithm_settings);
  return models * static_cast<double>(model.numbers * sizeof(float)) + static_cast<double>(model.optimizer_bytes);
}

void require_memory(double bytes_per_worker, int workers, std::optional<std::uint64_t> available,
                    const std::string& ways) {
  if (!available || bytes_per_worker * workers <= static_cast<double>(*available)) return;
  const int fitting = static_cast<int>(static_cast<double>(*available) / bytes_per_worker);
  throw Error(ErrorCode::bad_input,
              fmt::format("{} workers need {} of memory for their models, and {} are free: use {}{}", workers,
                          readable_bytes(bytes_per_worker * workers), readable_bytes(static_cast<double>(*available)),
                          fitting > 0 ? fmt::format("up to {} workers", fitting) : "a smaller model",
                          ways.empty() ? "" : ", or " + ways));
}

}  // namespace flockstep::tasks
