#include "tasks/detection/box.h"

#include <algorithm>
#include <cmath>

#include "base/portable_math.h"

namespace flockstep::tasks {
namespace {

const double kMostGrowth = base::portable_log(1000.0 / 16);

}  // namespace

double intersection(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return width > 0 && height > 0 ? width * height : 0;
}

double overlap(const Box& a, const Box& b) {
  const double both = intersection(a, b);
  return both > 0 ? both / (a.area() + b.area() - both) : 0;
}

BoxCode encode(const Box& box, const Box& anchor) {
  return {((box.left + box.right) - (anchor.left + anchor.right)) / 2 / anchor.width(),
          ((box.top + box.bottom) - (anchor.top + anchor.bottom)) / 2 / anchor.height(),
          base::portable_log(box.width() / anchor.width()), base::portable_log(box.height() / anchor.height())};
}

Box decode(const BoxCode& code, const Box& anchor) {
  const double x = (anchor.left + anchor.right) / 2 + code[0] * anchor.width();
  const double y = (anchor.top + anchor.bottom) / 2 + code[1] * anchor.height();
  const double width = anchor.width() * base::portable_exp(std::min(code[2], kMostGrowth));
  const double height = anchor.height() * base::portable_exp(std::min(code[3], kMostGrowth));
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

Box clip(const Box& box, double side) {
  const auto within = [side](double place) { return std::clamp(place, 0.0, side); };
  return {within(box.left), within(box.top), within(box.right), within(box.bottom)};
}

std::vector<std::size_t> suppress(std::span<const Box> boxes, double most) {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < boxes.size(); ++i)
    if (std::ranges::none_of(left, [&](std::size_t better) { return overlap(boxes[better], boxes[i]) > most; }))
      left.push_back(i);
  return left;
}

}  // namespace flockstep::tasks
