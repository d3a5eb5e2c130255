// From what the network says about every anchor to the objects that it has found.
#pragma once

#include <span>
#include <vector>

#include "tasks/detection/box.h"

namespace flockstep::tasks {

struct Detection {
  Box box;
  std::size_t label = 0;
  double score = 0;
};

struct DetectionRules {
  double least_score = 0.05;
  std::size_t candidates = 1000;  // the best so many are looked at
  double most_overlap = 0.5;      // of two that are found under the same label
  std::size_t most = 100;         // found in an image
};

// `scores` holds a logit for each label of each anchor, `codes` four numbers for each anchor; boxes are clipped to an
// image of `side` pixels. The best come first.
std::vector<Detection> find_objects(std::span<const float> scores, std::span<const float> codes,
                                    std::span<const Box> anchors, double side, const DetectionRules& rules = {});

}  // namespace flockstep::tasks
