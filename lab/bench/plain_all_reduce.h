// The all-reduce that benchmarks compare with: that of the library under the engine or, where it has none, a ring.
#pragma once

#include <functional>
#include <optional>

#include "bench/ring.h"

namespace flockstep::bench {

using AllReduce = std::function<void(std::span<float>)>;  // the sum over a group of workers, in place; blocks

bool has_library_all_reduce(const engines::Engine& engine);
// Of an engine whose library has one. Collective over all workers: those of a group pass the same number.
AllReduce library_all_reduce(const engines::Engine& engine, int group);

class PlainAllReduce {
 public:
  // Over all workers.
  PlainAllReduce(runtime::Context& context, std::size_t floats);
  // Collective over all workers. `members` are those of one's own group, the same for all of them.
  PlainAllReduce(runtime::Context& context, const std::vector<int>& members, std::size_t floats);

  bool is_own_ring() const { return ring_.has_value(); }
  void operator()(std::span<float> values) { ring_ ? ring_->all_reduce(values) : library_(values); }

 private:
  std::optional<Ring> ring_;
  AllReduce library_;
};

}  // namespace flockstep::bench
