// Which blocks a residual network of a given depth is made of, as its papers count layers. Without torch: options are
// checked before it is loaded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/settings.h"

namespace flockstep::tasks {

enum class Block {
  basic,       // two convolutions 3 x 3
  bottleneck,  // 1 x 1, 3 x 3 and 1 x 1, the last four times as wide
};

// What comes before the blocks.
enum class Stem {
  small,     // a convolution 3 x 3: for images of 28 or 32 pixels
  half,      // the same at every other pixel: a quarter of the work
  imagenet,  // a convolution 7 x 7 at every other pixel and the maximum of 3 x 3 at every other of these
};
inline constexpr std::array<base::Choice<Stem>, 3> kStems{
    {{"small", Stem::small}, {"half", Stem::half}, {"imagenet", Stem::imagenet}}};

// Over what the numbers of a channel are normalised.
enum class Norm {
  batch,  // over the batch of a worker while it trains, by running statistics when it is evaluated
  group,  // over the channel and a few others of the same image: for workers whose batches differ in kind
};
inline constexpr std::array<base::Choice<Norm>, 2> kNorms{{{"batch", Norm::batch}, {"group", Norm::group}}};

struct ResNetPlan {
  Block block;
  std::vector<int> blocks;  // in each stage; each stage but the first halves the image and doubles the width
};

// 18, 34, 50, 101 and 152 are the networks for ImageNet, of four stages; 8, 14, 20 and so on in steps of six, those for
// CIFAR-10, of three.
std::optional<ResNetPlan> resnet_plan(std::int64_t depth);

}  // namespace flockstep::tasks
