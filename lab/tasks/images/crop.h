// A part of a picture as a square of another size: what networks for large pictures see of them.
#pragma once

#include <span>

#include "base/random.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks {

// In pixels of the picture.
struct Crop {
  double left = 0, top = 0, width = 0, height = 0;
  bool mirrored = false;  // left and right
};

// The square in the middle that is left of a picture whose shorter side is made 8/7 of the network's.
Crop central_crop(std::size_t width, std::size_t height);
// A rectangle anywhere, of 8% to 100% of the picture and 3:4 to 4:3 (Szegedy et al., 2014), mirrored every other time.
Crop draw_crop(std::size_t width, std::size_t height, base::Random& random);

// Writes side x side values colour by colour, row by row: with mean zero and variance one over the pictures of
// ImageNet. Each is the mean of the pixels under it, those nearer to its middle counting more (a triangle, at least two
// pixels wide).
void resample(const Picture& picture, const Crop& crop, std::size_t side, std::span<float> values);

}  // namespace flockstep::tasks
