// The transfers of the one-pass path, in the format of the wire: shards to their owners, and results back to everybody.
//
// It moves; what is computed from what arrived is one_pass.h's business. Memory: the shards received, (P-1)/P of the
// buckets that have a place; with bfloat16 on the wire half of that, and half a span more for what is sent. With int8 a
// quarter more of either, beside shards received that are floats again.
#pragma once

#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/gradient/whole.h"

namespace flockstep::runtime {

// Everybody computes with what a wire can hold, also of its own numbers.
enum class Wire {
  float32,
  bfloat16,
  int8,  // blocks with a scale each: kernels/cpu/packing.h
};

double bytes_per_number(Wire wire);

// Error feedback: what the wire has lost so far of this worker's numbers, and of the results that it owns, is added to
// what it sends next. Where a span is empty nothing is added or kept.
struct Feedback {
  std::span<float> sent;     // as long as what is exchanged
  std::span<float> results;  // of one's own shards, bucket by bucket: own_numbers() in all
};

class ShardTransfers {
 public:
  // `purpose` names the buffers in memory counts. The first `places` buckets have places of their own.
  ShardTransfers(Context& context, Shards shards, Wire wire, const std::string& purpose, std::size_t places);

  const Shards& shards() const { return shards_; }
  Range own(std::size_t bucket) const { return shards_.of(bucket, rank_); }
  std::size_t own_numbers() const { return own_numbers_; }
  // Of transfers from now on; float32 loses nothing.
  void feed_back(const Feedback& feedback) { feedback_ = feedback; }

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
  void wait(Arrival& arrival);

  // Where everybody's numbers from `offset` in the shard on lie, in rank order; and their format.
  std::vector<const void*> rows(const Arrival& arrival, std::size_t offset, Whole whole) const;
  kernels::Number number() const {
    return wire_ == Wire::bfloat16 ? kernels::Number::bfloat16 : kernels::Number::float32;
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
  struct Place {
    std::size_t bytes, numbers;  // into received_ and unpacked_
  };

  std::size_t wire_bytes(std::size_t numbers) const;
  // Of a worker's shard: its bytes in sent_, or in the whole where the wire has floats.
  engines::Bytes on_wire(std::size_t bucket, std::size_t worker, Whole whole) const;
  engines::Bytes received(const Arrival& arrival, std::size_t peer) const;
  std::span<float> unpacked(const Arrival& arrival, std::size_t peer) const;
  std::size_t row_of(std::size_t peer) const { return peer < rank_ ? peer : peer - 1; }  // one's own is not received
  void to_wire(std::span<const float> numbers, std::span<float> lost, engines::Bytes bytes, kernels::cpu::Queue& queue);
  void from_wire(engines::ConstBytes bytes, std::span<float> numbers);

  Context& context_;
  Shards shards_;
  Wire wire_;
  std::size_t rank_;
  std::size_t numbers_ = 0, own_numbers_ = 0;       // of all shards, and of one's own
  std::vector<Place> places_;                       // of the buckets that have one
  std::vector<std::size_t> results_at_;             // of one's own shard of a bucket, into Feedback::results
  std::vector<std::vector<std::size_t>> wired_at_;  // of every shard, by bucket and worker, into sent_
  base::Buffer<std::byte> received_;
  base::Buffer<float> unpacked_;  // the same as floats, with int8
  base::Buffer<std::byte> sent_;  // the whole span as a coarser wire has it; later the results
  Feedback feedback_;
};

}  // namespace flockstep::runtime
