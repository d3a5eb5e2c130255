#include "algorithms/report.h"

#include <algorithm>
#include <array>

namespace flockstep::algorithms {

MeetingReport& MeetingReport::operator+=(const MeetingReport& other) {
  fresh += other.fresh;
  stale += other.stale;
  alone += other.alone;
  synchronised += other.synchronised;
  staleness.resize(std::max(staleness.size(), other.staleness.size()));
  for (std::size_t age = 0; age < other.staleness.size(); ++age) staleness[age] += other.staleness[age];
  round_s += other.round_s;
  return *this;
}

void MeetingReport::save(base::Archive& archive) const {
  archive.put_value("meetings: steps", std::array{fresh, stale, alone, synchronised});
  archive.put("meetings: staleness", std::span(staleness));
  archive.put_value("meetings: round seconds", round_s);
}

MeetingReport MeetingReport::restored(const base::Archive& archive) {
  const auto steps = archive.get_value<std::array<std::int64_t, 4>>("meetings: steps");
  return {.fresh = steps[0],
          .stale = steps[1],
          .alone = steps[2],
          .synchronised = steps[3],
          .staleness = archive.get_vector<std::int64_t>("meetings: staleness"),
          .round_s = archive.get_value<double>("meetings: round seconds")};
}

}  // namespace flockstep::algorithms
