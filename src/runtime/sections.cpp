#include "runtime/sections.h"

#include <algorithm>

namespace flockstep::runtime {

Sections::Sections(const Layout& layout, Granularity granularity)
    : granularity_(granularity), tensors_(layout.tensors()) {
  if (granularity == Granularity::model) sizes_ = {layout.size()};
  if (granularity == Granularity::bucket)
    for (const Range& bucket : layout.buckets()) sizes_.push_back(bucket.size);
  if (granularity == Granularity::tensor)
    for (const Range& tensor : tensors_) sizes_.push_back(tensor.size);
}

std::vector<Sections::Segment> Sections::cut(std::size_t bucket, Range shard) const {
  if (shard.size == 0) return {};
  if (granularity_ != Granularity::tensor) return {{granularity_ == Granularity::bucket ? bucket : 0, 0, shard.size}};
  std::vector<Segment> segments;
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const std::size_t from = std::max(shard.begin, tensors_[tensor].begin),
                      to = std::min(shard.end(), tensors_[tensor].end());
    if (from < to) segments.push_back({tensor, from - shard.begin, to - from});
  }
  return segments;
}

}  // namespace flockstep::runtime
