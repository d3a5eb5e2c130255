#include "runtime/ready_buckets.h"

#include <algorithm>

#include "base/check.h"

namespace flockstep::runtime {

ReadyBuckets::ReadyBuckets(const Layout& layout) : layout_(layout) { begin(); }

void ReadyBuckets::begin() {
  missing_.clear();
  for (const Range& bucket : layout_.buckets()) missing_.push_back(bucket.size);
  left_ = missing_.size();
  any_ready_ = false;
}

std::vector<std::size_t> ReadyBuckets::add(std::size_t begin, std::size_t size) {
  base::check(begin + size <= layout_.size(), "a range inside the gradient");
  any_ready_ = true;
  std::vector<std::size_t> completed;
  for (std::size_t index = 0; index < missing_.size(); ++index) {
    const Range& bucket = layout_.buckets()[index];
    const std::size_t from = std::max(begin, bucket.begin), to = std::min(begin + size, bucket.begin + bucket.size);
    if (from > to || (from == to && bucket.size > 0)) continue;
    base::check(missing_[index] >= to - from, "every number reported once");
    missing_[index] -= to - from;
    if (missing_[index] == 0) completed.push_back(index);
  }
  left_ -= completed.size();
  return completed;
}

}  // namespace flockstep::runtime
