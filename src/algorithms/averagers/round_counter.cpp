#include "algorithms/averagers/round_counter.h"

namespace flockstep::algorithms {

using protocol::Outcome;

void RoundCounter::add(std::optional<Outcome> outcome) {
  if (!outcome) return;
  switch (*outcome) {
    case Outcome::synchronised: ++report_.synchronised; break;
    case Outcome::fresh: ++report_.fresh; break;
    case Outcome::stale_in_flight:
    case Outcome::stale_behind: ++report_.stale; break;
    case Outcome::alone: ++report_.alone; break;
  }
}

void RoundCounter::add(const std::vector<base::Round>& rounds) {
  for (const base::Round& round : rounds) {
    const auto staleness = static_cast<std::size_t>(round.staleness);
    if (report_.staleness.size() <= staleness) report_.staleness.resize(staleness + 1);
    ++report_.staleness[staleness];
    report_.round_s += (round.end - round.begin).count();
    context_.record(round);
  }
}

}  // namespace flockstep::algorithms
