// Which training images a worker draws, with which labels, and how it varies them.
#pragma once

#include "base/random.h"
#include "tasks/image_set.h"

namespace flockstep::tasks {

enum class Shard {
  iid,     // every worker draws from all training images
  skewed,  // of P workers, worker i draws from the classes c with c = i modulo min(P, 10)
};

struct SamplerOptions {
  Shard shard = Shard::iid;
  int noisy_workers = 0;  // so many, the last ones, draw their labels at random
};
constexpr base::OptionSpec kShardOption{"shard", "iid", "iid, or skewed: each worker sees its own classes only"};
constexpr base::OptionSpec kNoisyOption{"noisy_workers", "0",
                                        "so many workers, the last ones, draw their labels at random"};
SamplerOptions sampler_options_of(const base::SettingsReader& reader, int workers);

class ImageSampler {
 public:
  // `data_rank` is the worker whose data these are. Throws Error{bad_file} where its classes have no image.
  ImageSampler(std::shared_ptr<const ImageSet> set, const SamplerOptions& options, int data_rank, int workers);

  struct Sample {
    std::size_t image, label;
  };
  Sample draw(base::Random& random) const;

 private:
  std::size_t draw_image(base::Random& random) const;

  std::shared_ptr<const ImageSet> set_;
  std::vector<std::size_t> classes_;  // to draw from; empty: from all images alike
  bool draws_labels_;
};

// At most `distance` up, down, left and right, and mirrored every other time.
Move draw_move(base::Random& random, int distance);

}  // namespace flockstep::tasks
