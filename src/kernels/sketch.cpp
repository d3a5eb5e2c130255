#include "kernels/sketch.h"

#include "base/random.h"

namespace flockstep::kernels {

SketchKey sketch_key(std::uint64_t seed, std::uint32_t step) {
  base::Random random(seed, base::Purpose::sketch, 0, step);
  return {random.bits(), random.bits()};
}

}  // namespace flockstep::kernels
