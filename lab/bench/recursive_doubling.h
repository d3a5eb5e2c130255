// The all-reduce of a group as published with wait-avoiding averaging: in each of log2 m phases every member exchanges
// its whole vector with one other and adds what it gets. D log2 m numbers sent, where 2 D (m - 1) / m would do.
#pragma once

#include <vector>

#include "runtime/context.h"

namespace flockstep::bench {

class RecursiveDoubling {
 public:
  // Members that there are a power of two of.
  static bool takes(std::size_t members);

  // `members` in rising order, oneself among them.
  RecursiveDoubling(runtime::Context& context, std::vector<int> members, std::size_t floats);

  // The sum over the members, in place.
  void all_reduce(std::span<float> values);

 private:
  void exchange(int partner, std::span<const float> values);  // into received_

  runtime::Context& context_;
  std::vector<int> members_;
  std::size_t place_;  // one's own among them
  base::Buffer<float> received_;
};

}  // namespace flockstep::bench
