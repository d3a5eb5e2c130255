#include "protocol/events.h"

namespace flockstep::protocol {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::synchronised: return "synchronised";
    case Outcome::fresh: return "fresh";
    case Outcome::stale_in_flight: return "stale, the round was under way";
    case Outcome::stale_behind: return "stale, the round had run";
    case Outcome::alone: return "alone";
  }
  return "";
}

}  // namespace flockstep::protocol
