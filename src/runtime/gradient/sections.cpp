#include "runtime/gradient/sections.h"

#include <algorithm>

namespace flockstep::runtime {

Sections::Sections(const Layout& layout, Granularity granularity) {
  if (granularity == Granularity::model) ranges_ = {{0, layout.size()}};
  if (granularity == Granularity::bucket) ranges_ = layout.buckets();
  if (granularity == Granularity::tensor) ranges_ = layout.tensors();
}

std::vector<Sections::Segment> Sections::cut(Range shard) const {
  std::vector<Segment> segments;
  for (std::size_t section = 0; section < ranges_.size(); ++section) {
    const std::size_t from = std::max(shard.begin, ranges_[section].begin),
                      to = std::min(shard.end(), ranges_[section].end());
    if (from < to) segments.push_back({section, from - shard.begin, to - from});
  }
  return segments;
}

std::vector<std::size_t> Sections::sizes() const {
  std::vector<std::size_t> sizes;
  for (const Range& range : ranges_) sizes.push_back(range.size);
  return sizes;
}

}  // namespace flockstep::runtime
