// What `vision` trains on: a set of images in memory, or pictures in folders, which are decoded when they are asked
// for.
#pragma once

#include <memory>

#include "base/random.h"
#include "tasks/images/image_sampler.h"
#include "tasks/vision/vision.h"
#include "train/task.h"

namespace flockstep::tasks {

class VisionData {
 public:
  virtual ~VisionData() = default;
  virtual ImageShape shape() const = 0;  // of what is copied
  virtual TrainingLabels training() const = 0;
  virtual std::span<const std::uint32_t> labels(train::Split split) const = 0;

  // Write the values of one image, channel by channel, row by row; a training image varied as the options say, by what
  // is drawn. Throw Error{bad_file}.
  virtual void copy_varied(std::size_t image, base::Random& random, std::span<float> values) const = 0;
  virtual void copy(train::Split split, std::size_t image, std::span<float> values) const = 0;
};

// Throws Error{bad_file}.
std::unique_ptr<VisionData> load_vision_data(const VisionOptions& options);

// The files that are read, or the folders of classes. Throws Error{bad_file}.
std::vector<std::filesystem::path> vision_files(const base::Settings& settings);

}  // namespace flockstep::tasks
