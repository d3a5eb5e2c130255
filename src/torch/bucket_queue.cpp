#include "torch/bucket_queue.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace flockstep::torch_front {

BucketQueue::BucketQueue(const runtime::Layout& layout) : ready_(layout), order_(layout.buckets().size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  begin();
}

void BucketQueue::begin() {
  ready_.begin();
  completed_.clear();
  complete_.assign(order_.size(), false);
  next_ = 0;
}

void BucketQueue::add(runtime::Range range) {
  for (const std::size_t bucket : ready_.add(range.begin, range.size)) {
    completed_.push_back(bucket);
    complete_[bucket] = true;
  }
}

std::optional<std::size_t> BucketQueue::next() {
  if (at_end() || !complete_[order_[next_]]) return std::nullopt;
  return order_[next_++];
}

void BucketQueue::set_order(std::vector<std::size_t> order) {
  base::check(std::ranges::is_permutation(order, order_), "an order of the same buckets");
  order_ = std::move(order);
}

}  // namespace flockstep::torch_front
