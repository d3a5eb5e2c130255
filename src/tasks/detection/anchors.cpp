#include "tasks/detection/anchors.h"

#include <cmath>

namespace flockstep::tasks {
namespace {

constexpr double kSizes[]{1, 1.2599210498948732, 1.5874010519681994};  // thirds of an octave
constexpr double kRatios[]{0.5, 1, 2};                                 // of height to width, at the same area
constexpr double kTells = 0.5, kIsBackground = 0.4;

}  // namespace

std::vector<Box> make_anchors(std::span<const Level> levels, double size) {
  std::vector<Box> anchors;
  for (const Level& level : levels)
    for (std::size_t row = 0; row < level.places; ++row)
      for (std::size_t column = 0; column < level.places; ++column)
        for (const double relative : kSizes)
          for (const double ratio : kRatios) {
            const auto stride = static_cast<double>(level.stride);
            const double x = (static_cast<double>(column) + 0.5) * stride,
                         y = (static_cast<double>(row) + 0.5) * stride;
            const double side = size * relative * stride, root = std::sqrt(ratio);
            const double width = side / root, height = side * root;
            anchors.push_back({x - width / 2, y - height / 2, x + width / 2, y + height / 2});
          }
  return anchors;
}

std::vector<int> match_anchors(std::span<const Box> anchors, std::span<const Object> objects) {
  std::vector<int> matches(anchors.size(), kBackground);
  std::vector<double> most(anchors.size());
  for (std::size_t o = 0; o < objects.size(); ++o) {
    if (objects[o].is_crowd) continue;
    for (std::size_t a = 0; a < anchors.size(); ++a) {
      const double share = overlap(anchors[a], objects[o].box);
      if (share <= most[a]) continue;
      most[a] = share;
      matches[a] = share >= kTells ? static_cast<int>(o) : share >= kIsBackground ? kLeftOut : kBackground;
    }
  }
  for (std::size_t o = 0; o < objects.size(); ++o) {
    if (objects[o].is_crowd) continue;
    std::size_t best = 0;
    double share_of_best = 0;
    for (std::size_t a = 0; a < anchors.size(); ++a)
      if (const double share = overlap(anchors[a], objects[o].box); share > share_of_best)
        best = a, share_of_best = share;
    if (share_of_best > 0) matches[best] = static_cast<int>(o);
  }
  return matches;
}

}  // namespace flockstep::tasks
