#include "tasks/translation/pair_sampler.h"

#include <algorithm>

#include "base/partition.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kMostBuckets = 32;

}  // namespace

PairSampler::PairSampler(std::shared_ptr<const Corpus> corpus, const ShardOptions& options, const WorkerData& worker)
    : corpus_(std::move(corpus)),
      range_{0, corpus_->train.size()},
      samples_(worker.samples),
      buckets_(1),
      draws_targets_(worker.is_noisy(options)) {
  if (options.shard == Shard::skewed) range_ = worker.own_part(range_.size, "pairs of sentences");
  buckets_ = std::clamp<std::size_t>(range_.size / samples_, 1, kMostBuckets);
}

std::vector<PairSampler::Sample> PairSampler::draw(base::Random& random) const {
  const auto below = [&](std::size_t bound) { return random.below(static_cast<std::uint32_t>(bound)); };
  const base::Partition parts(range_.size, buckets_);
  const std::size_t bucket = below(buckets_), first = range_.begin + parts.begin(bucket), size = parts.size(bucket);
  std::vector<Sample> batch;
  for (std::size_t i = 0; i < samples_; ++i) {
    const std::size_t pair = first + below(size), other = draws_targets_ ? first + below(size) : pair;
    batch.push_back({&corpus_->train[pair].source, &corpus_->train[other].target});
  }
  return batch;
}

double PairSampler::load_of(std::span<const Sample> batch) const {
  std::size_t tokens = 0;
  for (const Sample& sample : batch) tokens += sample.source->size() + sample.target->size();
  return static_cast<double>(tokens) / (static_cast<double>(batch.size()) * corpus_->mean_size);
}

}  // namespace flockstep::tasks
