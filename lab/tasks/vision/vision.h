// `vision`: a residual network on images. Here are its options and its row in the registry; the network itself,
// which needs torch, is in lab/tasks/torch.
#pragma once

#include <string>

#include "tasks/descent.h"
#include "tasks/images/image_sampler.h"
#include "tasks/registry.h"
#include "tasks/vision/resnet_plan.h"

namespace flockstep::tasks {

struct VisionOptions {
  std::int64_t depth = 8, width = 8;  // layers, and channels of the first stage
  Stem stem = Stem::half;
  Norm norm = Norm::batch;
  DescentOptions descent;
  double label_smoothing = 0;
  bool augment = false;
  std::size_t side = 32;  // of a folder's pictures, as the network sees them
  ShardOptions shard;
  std::string data;  // a folder; empty: what is built in
};

// Throws Error{bad_input}.
VisionOptions vision_options_of(const base::Settings& settings, int workers, std::int64_t steps);

// Whether the data are pictures in folders, and not one of the sets that are read at once.
bool holds_pictures(const std::string& data);

TaskRow vision_row();

}  // namespace flockstep::tasks
