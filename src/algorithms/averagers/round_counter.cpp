#include "algorithms/averagers/round_counter.h"

namespace flockstep::algorithms {

using protocol::Outcome;

namespace {

base::RoundRole role_of(const runtime::RoundRecord& round, int rank) {
  if (round.is_synchronisation) return base::RoundRole::synchronisation;
  if (round.activator == rank) return base::RoundRole::activated_here;
  return round.round == round.version ? base::RoundRole::fresh : base::RoundRole::passive;
}

}  // namespace

void RoundCounter::add(Outcome outcome) {
  switch (outcome) {
    case Outcome::synchronised: ++report_.synchronised; break;
    case Outcome::fresh: ++report_.fresh; break;
    case Outcome::stale_in_flight:
    case Outcome::stale_behind: ++report_.stale; break;
    case Outcome::alone: ++report_.alone; break;
  }
}

void RoundCounter::add(const std::vector<runtime::RoundRecord>& rounds) {
  for (const runtime::RoundRecord& round : rounds) {
    const auto staleness = static_cast<std::size_t>(round.round - round.version);
    if (report_.staleness.size() <= staleness) report_.staleness.resize(staleness + 1);
    ++report_.staleness[staleness];
    report_.round_s += (round.end - round.begin).count();
    context_.record({role_of(round, context_.rank()), round.begin, round.end, round.round, round.activator});
  }
}

}  // namespace flockstep::algorithms
