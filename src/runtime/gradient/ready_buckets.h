// Tells which buckets are complete as ranges of the gradient become final, in any order.
#pragma once

#include <map>
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
  // Whether one of these was reported in this pass; of a gradient without numbers, whether nothing was.
  bool any_ready_in(std::size_t begin, std::size_t size) const;
  bool all_ready() const { return left_ == 0; }
  bool any_ready() const { return any_ready_; }  // one number is enough

 private:
  void remember(std::size_t begin, std::size_t end);

  const Layout& layout_;
  std::vector<std::size_t> missing_;             // numbers per bucket
  std::map<std::size_t, std::size_t> reported_;  // ends by begins, neighbours merged
  std::size_t left_ = 0;                         // buckets
  bool any_ready_ = false;
};

}  // namespace flockstep::runtime
