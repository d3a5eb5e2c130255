// `detection`: RetinaNet (Lin et al., 2017) finds objects in pictures. Here are its options and its row in the
// registry; the network itself, which needs torch, is in lab/tasks/torch.
#pragma once

#include <string>

#include "tasks/adam.h"
#include "tasks/detection/scenes.h"
#include "tasks/registry.h"
#include "tasks/vision/resnet_plan.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks {

struct DetectionOptions {
  // The residual network below the pyramid.
  std::int64_t depth = 8, width = 8;
  Stem stem = Stem::half;
  Norm norm = Norm::group;
  std::int64_t stages = 2;        // of it that the pyramid stands on, the last ones
  std::int64_t extra_levels = 0;  // coarser ones above these
  std::int64_t channels = 32;     // of the pyramid and of what reads it
  std::int64_t layers = 2;        // before the last of each head
  std::int64_t classes = 0;       // 0: those of the data
  double anchor_size = 2;         // side of the smallest anchors, in strides of their level
  AdamOptions adam;
  SceneOptions scenes;  // whose side is that of the network's input for other pictures, too
  bool augment = true;
  ShardOptions shard;
  std::string data;  // a folder; empty: generated scenes
};

// Throws Error{bad_input}.
DetectionOptions detection_options_of(const base::Settings& settings, int workers, std::int64_t steps);

// The levels of the pyramid, from fine to coarse.
std::vector<Level> pyramid_levels(const DetectionOptions& options);

// Throws Error{bad_file} where its files cannot be read.
std::unique_ptr<DetectionData> load_detection_data(const DetectionOptions& options);

TaskRow detection_row();

}  // namespace flockstep::tasks
