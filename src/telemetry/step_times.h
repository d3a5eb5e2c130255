// How long the steps of all workers computed, what they waited left out: how uneven a workload is, whatever an
// algorithm makes of it.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace flockstep::telemetry {

// What summary.json tells of it under `step_times`.
struct StepTimeFigures {
  double median_s = 0, p90_s = 0, p99_s = 0, longest_s = 0;
  std::size_t first_bin = 0;         // of those below, the first that is not empty, ...
  std::vector<std::int64_t> counts;  // ... and how many steps lie in it and in those behind, up to the last
};

nlohmann::json step_times_json(const StepTimeFigures& figures);
StepTimeFigures step_times_from_json(const nlohmann::json& json);

// The same as sums over steps: travels and is saved as doubles. Bin k begins at kShortest * 10^(k / kPerDecade)
// seconds; the first and the last take in what lies outside.
struct StepTimes {
  static constexpr std::size_t kPerDecade = 40, kDecades = 9, kBins = kPerDecade * kDecades;
  static constexpr double kShortest = 1e-6;

  std::array<double, kBins> counts{};

  void add(double seconds);
  void add(const StepTimes& others);
  // A bin knows a quantile to a twentieth of it; none goes beyond the longest of all.
  StepTimeFigures figures(double longest_s) const;
};

}  // namespace flockstep::telemetry
