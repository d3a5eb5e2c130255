// One figure over several seeds, and quality over the time and the steps of their runs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "telemetry/summary.h"

namespace flockstep::compare {

// Of one figure over the seeds. A seed that ended without a number (NaN or infinite) has no mean, so with one of those
// mean and deviation are NaN; for the median it counts as worst, and min and max are those of the others.
struct Spread {
  double mean = 0, deviation = 0, median = 0, min = 0, max = 0;  // deviation: of the sample, 0 for one seed
};
Spread spread_of(const std::vector<double>& values, bool lower_is_better = true);
nlohmann::json to_json(const Spread& spread);

using Evaluations = std::vector<telemetry::Evaluation>;  // of one run

// At the steps that every seed has evaluated.
struct Curve {
  std::vector<std::int64_t> steps;
  std::vector<double> time_s;  // mean over the seeds
  std::vector<Spread> quality;
};
Curve curve_of(const std::vector<Evaluations>& runs, bool lower_is_better);
nlohmann::json to_json(const Curve& curve);

// When seeds were first seen with a quality.
struct TargetTime {
  Spread time_s;    // a seed that was never seen with it counts as worst, so where most were not there is no median
  int reached = 0;  // how many were
};
bool as_good(double quality, double target, bool lower_is_better);
TargetTime time_to(double target, const std::vector<Evaluations>& runs, bool lower_is_better);

}  // namespace flockstep::compare
