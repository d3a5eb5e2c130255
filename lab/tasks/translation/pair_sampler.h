// Which pairs of sentences a worker trains on. Those of a batch are alike in length, as is usual, so that little of it
// is padding; so some batches take many times as long as others.
#pragma once

#include "tasks/translation/corpus.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks {

// Skewed: of P workers, worker i draws from the i-th P-th of the training pairs by length.
constexpr base::OptionSpec kTranslationShardOption{"shard", "iid",
                                                   "iid, or skewed: each worker sees sentences of its own lengths"};
constexpr base::OptionSpec kTranslationNoisyOption{
    "noisy_workers", "0", "this many workers, the last ranks, learn from translations of other sentences"};

class PairSampler {
 public:
  // Throws Error{bad_file} where there is no pair for each worker.
  PairSampler(std::shared_ptr<const Corpus> corpus, const ShardOptions& options, const WorkerData& worker);

  struct Sample {
    const Tokens *source, *target;
  };
  std::vector<Sample> draw(base::Random& random) const;
  // The tokens of a batch in proportion to those of a mean batch of this many pairs, over all workers.
  double load_of(std::span<const Sample> batch) const;

 private:
  std::shared_ptr<const Corpus> corpus_;
  runtime::Range range_;  // of the training pairs
  std::size_t samples_;   // in a batch
  std::size_t buckets_;   // parts of the range, of which one is drawn for a batch
  bool draws_targets_;
};

}  // namespace flockstep::tasks
