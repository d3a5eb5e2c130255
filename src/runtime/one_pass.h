// The one transfer path of all synchronous rules: result = sum_i c_i x_i, for the price of one all-reduce.
//
// Per bucket: all-to-all (worker r receives shard r of everybody's), r's weighted sum of its shard in rank order, and
// an all-gather of the results. Each shard has one owner, so everybody ends on the same bits. The all-to-all of a
// bucket starts when the bucket is ready; sums and all-gathers follow bucket by bucket, so they overlap with what still
// travels. Where all is ready at once, few buckets travel at a time, into few places that stay in cache.
//
// In place: results overwrite the inputs. Memory: the shards received, (P-1)/P of the span.
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

  // The same for a span that is ready as a whole, none of it started.
  void run(std::span<float> whole, std::span<const float> coefficients);

  bool any_started() const { return !started_.empty(); }

 private:
  struct Started {
    std::size_t bucket;
    std::size_t place;  // where its shards are received, into received_
    base::Time issued;
    engines::Pending all_to_all;
  };
  struct Gathering {
    base::Time issued;
    engines::Pending all_gather;
  };

  std::span<float> own_shard(std::size_t bucket, std::span<float> whole) const;
  std::span<float> received(std::size_t bucket, std::size_t place, int peer) const;
  Started start_all_to_all(std::size_t bucket, std::size_t place, std::span<float> whole);
  // Waits for the shards of one bucket, adds them up, and sends the sum on its way.
  Gathering sum_and_gather(Started& started, std::span<float> whole, std::span<const float> coefficients);
  void wait_for(std::vector<Gathering>& gathering);

  Context& context_;
  Layout layout_;
  std::vector<base::Parts> shards_;  // per bucket
  std::vector<std::size_t> places_;  // per bucket, into received_
  base::Buffer<float> received_;
  std::vector<Started> started_;  // after the buffer: dropped first
};

}  // namespace flockstep::runtime
