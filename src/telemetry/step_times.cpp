#include "telemetry/step_times.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace flockstep::telemetry {
namespace {

double begin_of(double bin) {
  return StepTimes::kShortest * std::pow(10.0, bin / static_cast<double>(StepTimes::kPerDecade));
}

// What a share of all steps did not exceed; within a bin they are taken to lie evenly on its logarithmic scale.
double quantile(const StepTimes& times, double share, double total) {
  double before = 0;
  for (std::size_t bin = 0; bin < StepTimes::kBins; ++bin) {
    const double count = times.counts[bin];
    if (count > 0 && before + count >= share * total)
      return begin_of(static_cast<double>(bin) + (share * total - before) / count);
    before += count;
  }
  return 0;
}

}  // namespace

void StepTimes::add(double seconds) {
  const double place =
      std::floor(static_cast<double>(kPerDecade) * std::log10(std::max(seconds, kShortest) / kShortest));
  counts[static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)))] += 1;
}

void StepTimes::add(const StepTimes& others) {
  for (std::size_t bin = 0; bin < kBins; ++bin) counts[bin] += others.counts[bin];
}

StepTimeFigures StepTimes::figures(double longest_s) const {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (total == 0) return {};
  const auto at = [&](double share) { return std::min(quantile(*this, share, total), longest_s); };
  StepTimeFigures figures{at(0.5), at(0.9), at(0.99), longest_s, 0, {}};
  const auto is_there = [](double count) { return count > 0; };
  const auto first = std::ranges::find_if(counts, is_there);
  const auto end = std::find_if(counts.rbegin(), counts.rend(), is_there).base();
  figures.first_bin = static_cast<std::size_t>(first - counts.begin());
  for (auto count = first; count != end; ++count) figures.counts.push_back(std::llround(*count));
  return figures;
}

nlohmann::json step_times_json(const StepTimeFigures& figures) {
  return {{"median_s", figures.median_s},   {"p90_s", figures.p90_s},         {"p99_s", figures.p99_s},
          {"longest_s", figures.longest_s}, {"first_bin", figures.first_bin}, {"counts", figures.counts}};
}

StepTimeFigures step_times_from_json(const nlohmann::json& json) {
  return {json.at("median_s"),  json.at("p90_s"),     json.at("p99_s"),
          json.at("longest_s"), json.at("first_bin"), json.at("counts").get<std::vector<std::int64_t>>()};
}

}  // namespace flockstep::telemetry
