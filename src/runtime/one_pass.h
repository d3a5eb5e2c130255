// The one transfer path of all synchronous rules: result = sum_i c_i x_i, for the price of one all-reduce.
//
// Per bucket: all-to-all (worker r receives shard r of everybody's), r's weighted sum of its shard in rank order, and
// an all-gather of the results. Each shard has one owner, so everybody ends on the same bits. The all-to-all of a
// bucket starts when the bucket is ready; sums and all-gathers follow bucket by bucket, so they overlap with what still
// travels. In place: results overwrite the inputs. Memory: the shards received, (P-1)/P of the span, held from start to
// end.
#pragma once

#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/layout.h"

namespace flockstep::runtime {

class OnePass {
 public:
  // `purpose` names the buffer in memory counts.
  OnePass(Context& context, const Layout& layout, const std::string& purpose);

  // Starts a bucket of `whole`; may be called in any order of buckets, the same on every worker. From here to the end
  // of finish() nobody else may touch the bucket.
  void start(std::size_t bucket, std::span<float> whole);

  // Turns every bucket into the weighted sum over the workers. Every bucket must have been started.
  void finish(std::span<float> whole, std::span<const float> coefficients);

  // start() of every bucket, then finish().
  void run(std::span<float> whole, std::span<const float> coefficients);

 private:
  struct Started {
    std::size_t bucket;
    base::Time issued;
    engines::Pending all_to_all;
  };
  struct Gathering {
    base::Time issued;
    engines::Pending all_gather;
  };

  std::span<float> own_shard(std::size_t bucket, std::span<float> whole) const;
  std::span<float> received(std::size_t bucket, int peer) const;
  void sum_own_shard(std::size_t bucket, std::span<float> whole, std::span<const float> coefficients);
  Gathering start_all_gather(std::size_t bucket, std::span<float> whole);

  Context& context_;
  Layout layout_;
  std::vector<base::Parts> shards_;          // per bucket
  std::vector<std::size_t> received_begin_;  // per bucket, into received_
  base::Buffer<float> received_;
  std::vector<Started> started_;  // after the buffer: dropped first
};

}  // namespace flockstep::runtime
