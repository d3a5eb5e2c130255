// What the gradients of a run tell about its workers, step by step, on the one worker that writes it down.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "algorithms/report.h"
#include "math/watch.h"

namespace flockstep::train {

nlohmann::json to_json(const math::Finding& finding);
math::Finding finding_from_json(const nlohmann::json& json);

class Telemetry {
 public:
  // Cosines are written for up to so many workers; beyond, a picture of them tells nobody anything.
  static constexpr std::size_t kCosineWorkers = 64;

  // `step` counts from 1, as in the metrics.
  void observe(std::int64_t step, const algorithms::GradientReport& report);

  // Adds coefficients, norms, agreement and the guard that fired, if any, to the metrics line of an observed step.
  void describe(std::int64_t step, nlohmann::json& line) const;
  // Forgets the steps described so far.
  void forget() { steps_.clear(); }

  // The mean cosines since the last time, as a metrics line; nothing where none were seen.
  std::optional<nlohmann::json> cosines(std::int64_t step);
  // A metrics line for each finding raised since the last time.
  std::vector<nlohmann::json> new_findings(std::int64_t step);
  const std::vector<math::Finding>& findings() const { return watch_.findings(); }

 private:
  struct Seen {
    std::int64_t step;
    math::Event event;
    std::vector<double> coefficients, norms, agreement;
  };
  std::vector<Seen> steps_;
  math::Watch watch_;
  std::size_t told_ = 0;  // findings that have been written
  std::vector<double> cosine_sums_;
  std::int64_t cosine_steps_ = 0;
};

}  // namespace flockstep::train
