#include "runtime/gradient/ready_buckets.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace flockstep::runtime {

ReadyBuckets::ReadyBuckets(const Layout& layout) : layout_(layout) { begin(); }

void ReadyBuckets::begin() {
  missing_.clear();
  for (const Range& bucket : layout_.buckets()) missing_.push_back(bucket.size);
  reported_.clear();
  left_ = missing_.size();
  any_ready_ = false;
}

std::vector<std::size_t> ReadyBuckets::add(std::size_t begin, std::size_t size) {
  base::check(begin + size <= layout_.size(), "a range inside the gradient");
  base::check(!any_ready_in(begin, size), "every number reported once");
  std::vector<std::size_t> completed;
  if (size == 0 && layout_.size() > 0) return completed;
  any_ready_ = true;
  remember(begin, begin + size);
  for (std::size_t index = 0; index < missing_.size(); ++index) {
    const Range& bucket = layout_.buckets()[index];
    const std::size_t from = std::max(begin, bucket.begin), to = std::min(begin + size, bucket.begin + bucket.size);
    if (from > to || (from == to && bucket.size > 0)) continue;
    missing_[index] -= to - from;
    if (missing_[index] == 0) completed.push_back(index);
  }
  left_ -= completed.size();
  return completed;
}

bool ReadyBuckets::any_ready_in(std::size_t begin, std::size_t size) const {
  if (layout_.size() == 0) return any_ready_;
  const auto behind = reported_.lower_bound(begin + size);
  return size > 0 && behind != reported_.begin() && std::prev(behind)->second > begin;
}

void ReadyBuckets::remember(std::size_t begin, std::size_t end) {
  auto next = reported_.lower_bound(begin);
  if (next != reported_.end() && next->first == end) {
    end = next->second;
    next = reported_.erase(next);
  }
  if (next != reported_.begin() && std::prev(next)->second == begin)
    std::prev(next)->second = end;
  else
    reported_.emplace_hint(next, begin, end);
}

}  // namespace flockstep::runtime
