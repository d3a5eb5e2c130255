#include "tasks/detection/anchors.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace flockstep::tasks {
namespace {

constexpr double kAnchorSizes[]{1, 1.2599210498948732, 1.5874010519681994};  // thirds of an octave
constexpr double kRatios[]{0.5, 1, 2};                                       // of height to width, at the same area
constexpr double kTells = 0.5, kIsBackground = 0.4;

}  // namespace

std::vector<Box> make_anchors(std::span<const Level> levels, double size) {
  std::vector<Box> anchors;
  for (const Level& level : levels)
    for (std::size_t row = 0; row < level.places; ++row)
      for (std::size_t column = 0; column < level.places; ++column)
        for (const double relative : kAnchorSizes)
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
  struct Pair {
    double share;
    std::size_t object, anchor;
  };
  std::vector<Pair> pairs;
  for (std::size_t o = 0; o < objects.size(); ++o) {
    if (objects[o].is_crowd) continue;
    for (std::size_t a = 0; a < anchors.size(); ++a)
      if (const double share = overlap(anchors[a], objects[o].box); share > 0) pairs.push_back({share, o, a});
  }
  std::ranges::stable_sort(pairs, std::greater(), &Pair::share);

  std::vector<int> matches(anchors.size(), kBackground);
  std::vector<bool> is_matched(anchors.size()), is_spoken_for(anchors.size()), is_told(objects.size());
  for (const auto& [share, object, anchor] : pairs) {
    if (!is_matched[anchor] && share >= kIsBackground)
      matches[anchor] = share >= kTells ? static_cast<int>(object) : kLeftOut;
    is_matched[anchor] = true;
    if (is_told[object] || is_spoken_for[anchor]) continue;
    matches[anchor] = static_cast<int>(object);
    is_told[object] = is_spoken_for[anchor] = true;
  }
  return matches;
}

}  // namespace flockstep::tasks
