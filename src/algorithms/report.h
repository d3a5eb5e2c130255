// What one step told about the workers, for whoever wants to look: metrics, findings, users.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/archive.h"
#include "math/aggregate.h"

namespace flockstep::algorithms {

struct GradientReport {
  math::Event event = math::Event::none;
  // One per worker: what its gradient was multiplied by; over several sections, their mean weighted by size.
  std::vector<double> coefficients;
  // Of the whole gradient, whatever the granularity. Without K, with norms alone or without anything, where no more was
  // looked at. K may come from sketches.
  math::Statistics statistics;
  // One per worker, or empty if the guard was not applied: true if the worker met the guard, also if that only counts.
  std::vector<bool> clipped = {};
  // One per worker, or empty: true if the worker was left out after its patience of steps that were not finite.
  std::vector<bool> left_out = {};
  // One per worker, or empty: true if the worker was not finite for as long, but too many are like it to be left out.
  std::vector<bool> stuck = {};

  bool any_clipped() const { return std::ranges::find(clipped, true) != clipped.end(); }
};

// What one worker counts, since it began, where models are averaged without waiting for everybody. Every step is one of
// the first four.
struct MeetingReport {
  std::int64_t fresh = 0;         // steps whose model was in the average it was merged with
  std::int64_t stale = 0;         // ... was not: the average had been taken without it
  std::int64_t alone = 0;         // steps with no new average to merge with
  std::int64_t synchronised = 0;  // steps that waited for everybody
  // staleness[k]: contributions that were k iterations old when a round took them; one for each average taken part in.
  std::vector<std::int64_t> staleness;
  double round_s = 0;  // from each of these contributions to its result, added up

  MeetingReport& operator+=(const MeetingReport& other);
  void save(base::Archive& archive) const;
  static MeetingReport restored(const base::Archive& archive);
};

// How often each guard fired, in steps.
struct GuardCounts {
  std::int64_t non_finite = 0, all_zero = 0, unsafe = 0;
  std::int64_t clipped = 0;  // a worker's gradient was cut to a few times the median one, or would have been
};

}  // namespace flockstep::algorithms
