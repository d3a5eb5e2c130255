// How the models of all workers met in a run, where they are averaged without waiting for everybody.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "algorithms/report.h"

namespace flockstep::telemetry {

// What metrics.jsonl and summary.json tell of it. NaN where there was nothing to take a share or a mean of.
struct MeetingFigures {
  double fresh_fraction = 0;  // of the steps merged with an average, those whose own model was in it
  double alone_share = 0;     // of all steps, those that found no new average to merge with
  double mean_staleness = 0;  // iterations by which contributions were old when a round took them
  double mean_round_s = 0;    // from a contribution to the result, over all contributions
  // [k]: contributions that were k iterations old; where there are kAges of them, the last has all that were older,
  // too.
  std::vector<std::int64_t> staleness;
};

// Everything null where models meet in lockstep.
nlohmann::json meetings_json(const std::optional<MeetingFigures>& figures);
std::optional<MeetingFigures> meetings_from_json(const nlohmann::json& json);

// The same as sums: travels and is saved as doubles.
struct MeetingTotals {
  static constexpr std::size_t kAges = 64;

  double fresh = 0, stale = 0, alone = 0, synchronised = 0, contributions = 0, iterations_old = 0, round_s = 0;
  std::array<double, kAges> staleness{};

  void add(const algorithms::MeetingReport& report);
  MeetingFigures figures() const;
};

}  // namespace flockstep::telemetry
