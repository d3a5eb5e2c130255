#include "base/trace.h"

#include <algorithm>

namespace flockstep::base {

std::string_view to_string(Track track) {
  switch (track) {
    case Track::compute: return "compute";
    case Track::wait: return "wait";
    case Track::transfer: return "transfer";
  }
  return "unknown";
}

void Trace::record(Track track, std::string_view name, Time begin, Time end) {
  if (spans_.size() >= capacity_) {
    ++dropped_;
    return;
  }
  auto known = std::ranges::find(names_, name);
  if (known == names_.end()) known = names_.insert(names_.end(), name);
  spans_.push_back({track, static_cast<std::uint8_t>(known - names_.begin()), begin, end});
}

}  // namespace flockstep::base
