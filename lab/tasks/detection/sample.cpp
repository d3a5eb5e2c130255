#include "tasks/detection/sample.h"

namespace flockstep::tasks {

Box draw_box(std::size_t side, base::Random& random) {
  const auto whole = static_cast<std::uint32_t>(side);
  const auto draw_length = [&] { return whole / 6 + random.below(whole / 3 + 1); };
  const std::uint32_t width = draw_length(), height = draw_length();
  const std::uint32_t left = random.below(whole - width + 1), top = random.below(whole - height + 1);
  return {static_cast<double>(left), static_cast<double>(top), static_cast<double>(left + width),
          static_cast<double>(top + height)};
}

void draw_objects_at_random(Sample& sample, std::size_t side, std::size_t labels, base::Random& random) {
  for (Object& object : sample.objects)
    object = {.box = draw_box(side, random), .label = random.below(static_cast<std::uint32_t>(labels))};
}

}  // namespace flockstep::tasks
