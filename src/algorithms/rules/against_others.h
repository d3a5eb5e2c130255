// Whether a worker's gradients point against the others': what a gradient rule has to know to leave it out.
//
// A gradient that a guard has cut to a few times the median one, and that points against the others', still undoes as
// many of theirs, step after step. So it is left out, by the definition of math/update_guard.h with gradients for
// updates: what is too long counts nothing while a < -b / 2 and b > 0.03, with the cosines up to the step before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/archive.h"
#include "math/statistics.h"
#include "math/update_guard.h"
#include "math/watch.h"

namespace flockstep::algorithms {

class AgainstOthers {
 public:
  AgainstOthers(std::size_t rank, std::size_t workers);

  // Numbers in a sketch of a gradient of so many.
  static std::size_t sketch_length(std::size_t numbers);

  // Of this worker, in the next step.
  bool holds() const { return guard_.is_against(); }
  // A step is over: everybody's squared norms and weights, and a sketch of each worker's gradient.
  void observe(const math::Statistics& statistics, const std::vector<std::span<const float>>& sketches);
  // Whether this worker was left out of a step, in whole or in part.
  void count(bool is_left_out);

  std::vector<math::Finding> findings() const;
  void save(base::Archive& archive) const;
  void restore(const base::Archive& archive);

 private:
  std::size_t rank_;
  math::UpdateGuard guard_;
  std::int64_t steps_ = 0, steps_left_out_ = 0;
};

}  // namespace flockstep::algorithms
