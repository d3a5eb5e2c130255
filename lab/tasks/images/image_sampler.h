// Which training images a worker draws, with which labels, and how it varies them.
#pragma once

#include "base/random.h"
#include "tasks/images/image_set.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks {

constexpr base::OptionSpec kShardOption{"shard", "iid", "iid, or skewed: each worker sees its own classes only"};

class ImageSampler {
 public:
  // Of images whose labels outlive it. Throws Error{bad_file} where the worker's classes have no image.
  ImageSampler(const TrainingLabels& images, const ShardOptions& options, const WorkerData& worker);

  struct Sample {
    std::size_t image, label;
  };
  Sample draw(base::Random& random) const;

 private:
  std::size_t draw_image(base::Random& random) const;

  TrainingLabels images_;
  std::vector<std::size_t> classes_;  // to draw from; empty: from all images alike
  bool draws_labels_;
};

// At most `distance` up, down, left and right, and mirrored every other time.
Move draw_move(base::Random& random, int distance);

}  // namespace flockstep::tasks
