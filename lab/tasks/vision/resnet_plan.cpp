#include "tasks/vision/resnet_plan.h"

namespace flockstep::tasks {

std::optional<ResNetPlan> resnet_plan(std::int64_t depth) {
  switch (depth) {
    case 18: return ResNetPlan{Block::basic, {2, 2, 2, 2}};
    case 34: return ResNetPlan{Block::basic, {3, 4, 6, 3}};
    case 50: return ResNetPlan{Block::bottleneck, {3, 4, 6, 3}};
    case 101: return ResNetPlan{Block::bottleneck, {3, 4, 23, 3}};
    case 152: return ResNetPlan{Block::bottleneck, {3, 8, 36, 3}};
    default: break;
  }
  if (depth < 8 || depth % 6 != 2) return std::nullopt;
  return ResNetPlan{Block::basic, std::vector<int>(3, static_cast<int>(depth / 6))};
}

}  // namespace flockstep::tasks
