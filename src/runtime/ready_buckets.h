// Tells which buckets are complete as ranges of the gradient become final, in any order.
#pragma once

#include <vector>

#include "runtime/layout.h"

namespace flockstep::runtime {

class ReadyBuckets {
 public:
  explicit ReadyBuckets(const Layout& layout);

  // Forgets what was ready: a new backward pass begins.
  void begin();
  // Marks [begin, begin + size); every number is reported once per pass. Returns the buckets that this completes.
  std::vector<std::size_t> add(std::size_t begin, std::size_t size);
  bool all_ready() const { return left_ == 0; }
  bool any_ready() const { return any_ready_; }  // one number is enough

 private:
  const Layout& layout_;
  std::vector<std::size_t> missing_;  // numbers per bucket
  std::size_t left_ = 0;              // buckets
  bool any_ready_ = false;
};

}  // namespace flockstep::runtime
