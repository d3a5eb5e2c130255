// What the gradients of a run tell about its workers, step by step, on the one worker that writes it down.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "algorithms/report.h"
#include "math/watch.h"

namespace flockstep::telemetry {

nlohmann::json findings_json(const std::vector<math::Finding>& findings);
std::vector<math::Finding> findings_from_json(const nlohmann::json& json);

class Telemetry {
 public:
  // Cosines are written for up to so many workers; beyond, a picture of them tells nobody anything.
  static constexpr std::size_t kCosineWorkers = 64;

  // `step` counts from 1, as in the metrics. `event` is what was found out about the result, where the rule did not
  // look; `raised` are the findings of this step.
  void observe(std::int64_t step, const algorithms::GradientReport& report, math::Event event,
               const std::vector<math::Finding>& raised);

  // Adds coefficients, norms, agreement, the guard that fired and the workers that were clipped, if any, to the metrics
  // line of an observed step.
  void describe(std::int64_t step, nlohmann::json& line) const;
  // Forgets the steps described so far.
  void forget() { steps_.clear(); }

  // The mean cosines since the last time, as a metrics line; nothing where none were seen.
  std::optional<nlohmann::json> cosines(std::int64_t step);
  // A metrics line for each finding raised since the last time.
  std::vector<nlohmann::json> new_findings(std::int64_t step);

 private:
  struct Seen {
    std::int64_t step;
    math::Event event;
    std::vector<double> coefficients, norms, agreement;
    std::vector<int> clipped;
  };
  std::vector<Seen> steps_;
  std::vector<math::Finding> raised_;  // and not written yet
  std::vector<double> cosine_sums_;
  std::int64_t cosine_steps_ = 0;
};

}  // namespace flockstep::telemetry
