// The transfers of the one-pass path, in the format of the wire: shards to their owners, and results back to everybody.
//
// It moves; what is computed from what arrived is one_pass.h's business. Memory: the shards received, (P-1)/P of the
// buckets that have a place; with bfloat16 on the wire half of that, and half a span more for what is sent.
#pragma once

#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/gradient/whole.h"

namespace flockstep::runtime {

enum class Wire { float32, bfloat16 };

class ShardTransfers {
 public:
  // `purpose` names the buffers in memory counts. The first `places` buckets have places of their own.
  ShardTransfers(Context& context, Shards shards, Wire wire, const std::string& purpose, std::size_t places);

  const Shards& shards() const { return shards_; }
  Range own(std::size_t bucket) const { return shards_.of(bucket, rank_); }

  // Everybody's part of one's own shard of a bucket, on its way or there.
  struct Arrival {
    std::size_t bucket;
    std::size_t place;  // where it is received; that of another bucket if it is done with
    base::Time issued;
    engines::Pending all_to_all;
  };
  std::size_t place_of(std::size_t bucket) const;
  // From here until the results are there nobody else may touch the bucket.
  Arrival send(std::size_t bucket, std::size_t place, Whole whole);
  void wait(Arrival& arrival) { context_.wait(*arrival.all_to_all, "all_to_all", arrival.issued); }

  // Where everybody's numbers from `offset` in the shard on lie, in rank order; and their format, the wire's.
  std::vector<const void*> rows(const Arrival& arrival, std::size_t offset, Whole whole) const;
  kernels::Number number() const {
    return wire_ == Wire::float32 ? kernels::Number::float32 : kernels::Number::bfloat16;
  }

  struct Result {
    std::size_t bucket;
    base::Time issued;
    engines::Pending all_gather;
  };
  // Sends one's own shard of the bucket, as `whole` has it now, to everybody.
  Result gather(std::size_t bucket, Whole whole);
  // Waits until the whole bucket is there, the same bits on every worker.
  void wait(Result& result, Whole whole);

 private:
  template <typename T>
  std::span<T> received(const Arrival& arrival, std::size_t peer) const;
  // `part_of(range)` is what the wire is to see of the whole.
  template <typename T, typename F>
  engines::Pending send_from(const Arrival& arrival, const F& part_of);
  template <typename F>
  engines::Pending gather_into(std::size_t bucket, const F& part_of);

  Context& context_;
  Shards shards_;
  Wire wire_;
  std::size_t rank_;
  std::vector<std::size_t> places_;  // of the buckets that have one, in numbers, into received_
  base::Buffer<std::byte> received_;
  base::Buffer<kernels::BFloat16> sent_;  // the whole span as the wire has it; later the results
};

}  // namespace flockstep::runtime
