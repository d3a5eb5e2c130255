// In which order buckets start to travel: one order on all workers, whatever order backward completes them in here.
#pragma once

#include <optional>
#include <vector>

#include "runtime/gradient/ready_buckets.h"

namespace flockstep::torch_front {

class BucketQueue {
 public:
  // At first in the order of the layout.
  explicit BucketQueue(const runtime::Layout& layout);

  // A new backward pass.
  void begin();
  // These numbers are final; every number once per pass.
  void add(runtime::Range range);
  // The next bucket of the order, each once; nothing while it is not complete, and at the end.
  std::optional<std::size_t> next();
  bool at_end() const { return next_ == order_.size(); }

  const std::vector<std::size_t>& order() const { return order_; }
  // Between two passes; every bucket once.
  void set_order(std::vector<std::size_t> order);
  // How this pass has completed them.
  const std::vector<std::size_t>& completed() const { return completed_; }

 private:
  runtime::ReadyBuckets ready_;
  std::vector<std::size_t> order_, completed_;
  std::vector<bool> complete_;
  std::size_t next_ = 0;  // place in order_
};

}  // namespace flockstep::torch_front
