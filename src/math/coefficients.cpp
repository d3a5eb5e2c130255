#include "math/coefficients.h"

namespace flockstep::math {

std::vector<float> mean_coefficients(int workers) {
  return std::vector<float>(static_cast<std::size_t>(workers), 1.0f / static_cast<float>(workers));
}

}  // namespace flockstep::math
