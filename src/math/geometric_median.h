// The point with the smallest sum of distances to the workers' gradients (or their directions), by smoothed Weiszfeld
// steps: fewer than half of the workers cannot drag it away. It lies in the span of the gradients, so the steps are
// taken on coefficients and never touch a gradient.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

// The points whose median is sought.
enum class MedianOf {
  directions,  // g_i / n_i: a worker is judged by where it points
  raw,         // g_i
};

struct GeometricMedianOptions {
  MedianOf on = MedianOf::directions;
  double eps = 1e-8;
};

Rule geometric_median(const GeometricMedianOptions& options = {});

}  // namespace flockstep::math
