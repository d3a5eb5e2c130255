#include "base/trace.h"

#include <algorithm>

namespace flockstep::base {

std::string_view to_string(Track track) {
  switch (track) {
    case Track::compute: return "compute";
    case Track::wait: return "wait";
    case Track::transfer: return "transfer";
    case Track::rounds: return "rounds";
  }
  return "unknown";
}

std::string_view to_string(RoundRole role) {
  switch (role) {
    case RoundRole::synchronisation: return "synchronisation";
    case RoundRole::activated_here: return "round, activated here";
    case RoundRole::fresh: return "round, fresh";
    case RoundRole::passive: return "round, passive";
  }
  return "unknown";
}

void Trace::record(Track track, std::string_view name, Time begin, Time end) {
  add(name, {.track = track, .name = 0, .begin = begin, .end = end});
}

void Trace::record(const Round& round) {
  add(to_string(round.role),
      {Track::rounds, 0, static_cast<std::int32_t>(round.number), round.activator, round.begin, round.end});
}

void Trace::add(std::string_view name, Span span) {
  if (spans_.size() >= capacity_) {
    ++dropped_;
    return;
  }
  auto known = std::ranges::find(names_, name);
  if (known == names_.end()) known = names_.insert(names_.end(), name);
  span.name = static_cast<std::uint8_t>(known - names_.begin());
  spans_.push_back(span);
}

}  // namespace flockstep::base
