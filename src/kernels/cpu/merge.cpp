#include "kernels/cpu/merge.h"

#include <cstddef>

namespace flockstep::kernels::cpu {
namespace {

// __restrict: without it every loop would first have to find out that its spans do not overlap.
using Out = float* __restrict;
using In = const float* __restrict;

}  // namespace

void divide(std::span<float> x, float divisor) {
  for (float& value : x) value /= divisor;
}

void join(std::span<float> model, std::span<const float> mean, int members) {
  const Out to = model.data();
  const In from = mean.data();
  const auto divisor = static_cast<float>(members + 1);
  for (std::size_t k = 0; k < model.size(); ++k) to[k] = from[k] + (to[k] - from[k]) / divisor;
}

void join_and_swap(std::span<float> model, std::span<float> mean, int members) {
  const Out to = model.data(), from = mean.data();
  const auto divisor = static_cast<float>(members + 1);
  for (std::size_t k = 0; k < model.size(); ++k) {
    const float own = to[k];
    to[k] = from[k] + (own - from[k]) / divisor;
    from[k] = own;
  }
}

void move_to(std::span<float> x, std::span<float> y) {
  const Out to = x.data(), from = y.data();
  for (std::size_t k = 0; k < x.size(); ++k) {
    to[k] += from[k];
    from[k] = 0;
  }
}

}  // namespace flockstep::kernels::cpu
