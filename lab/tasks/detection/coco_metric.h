// Mean average precision as COCO computes it for boxes of all sizes, with at most 100 detections of a label in an
// image.
#pragma once

#include <span>
#include <vector>

#include "tasks/detection/anchors.h"
#include "tasks/detection/detections.h"

namespace flockstep::tasks {

// What is in an image, and what was found there.
struct ImageResult {
  std::vector<Object> objects;
  std::vector<Detection> detections;
};

struct MeanPrecision {
  double all = 0;   // the mean over the overlaps 0.5, 0.55, ... 0.95 that a detection needs: mAP[.50:.95]
  double at50 = 0;  // mAP@0.5
  double at75 = 0;
};

// The mean over labels that some image has; 0 where none has any.
MeanPrecision mean_precision(std::span<const ImageResult> images);

// Results as plain numbers, those of several images one behind the other, and back.
std::vector<double> to_records(std::span<const ImageResult> images);
std::vector<ImageResult> from_records(std::span<const double> records);

}  // namespace flockstep::tasks
