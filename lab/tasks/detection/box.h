// Boxes in the plane of an image: how much two overlap, and one in terms of another.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace flockstep::tasks {

// x to the right, y down, in pixels.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
  double area() const { return width() * height(); }
  bool operator==(const Box&) const = default;
};

double intersection(const Box& a, const Box& b);
// Of the intersection in the union.
double overlap(const Box& a, const Box& b);

// How a box differs from an anchor: the way of its centre in sides of the anchor, and the logarithms of its sides to
// the anchor's.
using BoxCode = std::array<double, 4>;
BoxCode encode(const Box& box, const Box& anchor);
// The reverse. Sides grow at most 62.5 times, so that an untrained network cannot ask for infinite ones.
Box decode(const BoxCode& code, const Box& anchor);

Box clip(const Box& box, double side);

// Non-maximum suppression: which boxes are left, in order, where each is dropped that overlaps by more than `most` an
// earlier one that is left. The best come first.
std::vector<std::size_t> suppress(std::span<const Box> boxes, double most);

}  // namespace flockstep::tasks
