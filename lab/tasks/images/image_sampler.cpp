#include "tasks/images/image_sampler.h"

#include <fmt/core.h>

#include "flockstep/error.h"

namespace flockstep::tasks {
ImageSampler::ImageSampler(const TrainingLabels& images, const ShardOptions& options, const WorkerData& worker)
    : images_(images), draws_labels_(worker.is_noisy(options)) {
  if (options.shard == Shard::iid) return;
  for (const std::size_t c : worker.own_kinds(images_.of_class.size()))
    if (!images_.of_class[c].empty()) classes_.push_back(c);
  if (classes_.empty())
    throw Error(
        ErrorCode::bad_file,
        fmt::format("the training images hold none of the classes of worker {}: use --shard iid", worker.data_rank));
}

std::size_t ImageSampler::draw_image(base::Random& random) const {
  const auto below = [&](std::size_t bound) { return random.below(static_cast<std::uint32_t>(bound)); };
  if (classes_.empty()) return below(images_.labels.size());
  const auto& images = images_.of_class[classes_[below(classes_.size())]];
  return images[below(images.size())];
}

ImageSampler::Sample ImageSampler::draw(base::Random& random) const {
  const std::size_t image = draw_image(random);
  const auto classes = static_cast<std::uint32_t>(images_.of_class.size());
  return {image, draws_labels_ ? random.below(classes) : images_.labels[image]};
}

Move draw_move(base::Random& random, int distance) {
  const auto places = static_cast<std::uint32_t>(2 * distance + 1);
  const int down = static_cast<int>(random.below(places)) - distance,
            right = static_cast<int>(random.below(places)) - distance;
  return {down, right, random.below(2) == 1};
}

}  // namespace flockstep::tasks
