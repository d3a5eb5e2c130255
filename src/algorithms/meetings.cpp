#include "algorithms/meetings.h"

#include "runtime/one_pass.h"

namespace flockstep::algorithms {

using protocol::Outcome;

void Meetings::add(Outcome outcome, const std::vector<runtime::RoundRecord>& rounds) {
  switch (outcome) {
    case Outcome::synchronised: ++report_.synchronised; break;
    case Outcome::fresh: ++report_.fresh; break;
    case Outcome::stale_in_flight:
    case Outcome::stale_behind: ++report_.stale; break;
    case Outcome::alone: ++report_.alone; break;
  }
  for (const runtime::RoundRecord& round : rounds) {
    const auto staleness = static_cast<std::size_t>(round.round - round.version);
    if (report_.staleness.size() <= staleness) report_.staleness.resize(staleness + 1);
    ++report_.staleness[staleness];
    report_.round_s += (round.end - round.begin).count();
  }
}

void average_over_all(runtime::Context& context, const runtime::Layout& layout, std::span<float> values) {
  runtime::OnePass(context, layout, "received shards").average(values);
}

}  // namespace flockstep::algorithms
