// A picture for a detector, with the objects in it: what training and evaluations consist of, wherever it comes from.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "tasks/detection/anchors.h"
#include "train/task.h"

namespace flockstep::tasks {

constexpr std::size_t kColours = 3;

// As many rows as columns.
struct Sample {
  std::vector<std::uint8_t> pixels;  // colour by colour, row by row
  std::vector<Object> objects;
};

class DetectionData {
 public:
  virtual ~DetectionData() = default;
  virtual std::size_t labels() const = 0;
  // For training. With all labels any picture, which may show nothing; else one with an object of one of these labels.
  virtual Sample draw(base::Random& random, std::span<const std::size_t> labels) const = 0;
  virtual std::size_t count(train::Split split) const = 0;
  virtual Sample at(train::Split split, std::size_t index) const = 0;
};

// Instead of the objects others, of any label and at any place.
void draw_objects_at_random(Sample& sample, std::size_t side, std::size_t labels, base::Random& random);

// A box within a square picture whose sides are a sixth to a half of the picture's.
Box draw_box(std::size_t side, base::Random& random);

}  // namespace flockstep::tasks
