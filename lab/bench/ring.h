// The textbook all-reduce: a ring of reduce-scatter, then of all-gather. What an engine without an all-reduce of its
// own is compared with.
#pragma once

#include <vector>

#include "base/partition.h"
#include "runtime/context.h"

namespace flockstep::bench {

class Ring {
 public:
  // `members` in any order, the same everywhere; oneself among them.
  Ring(runtime::Context& context, std::vector<int> members, std::size_t floats);

  // The sum over the members, in place, in the order of the ring.
  void all_reduce(std::span<float> values);

 private:
  // Passes one part on to the right while one comes from the left.
  void pass(std::span<const float> sent, std::span<float> received);

  runtime::Context& context_;
  std::vector<int> members_;
  std::size_t place_;  // one's own among them
  base::Partition parts_;
  base::Buffer<float> received_;
};

}  // namespace flockstep::bench
