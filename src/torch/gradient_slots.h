// The buckets of a backward pass as somebody else cuts and orders them (torch's DistributedDataParallel), and how they
// travel: each in place where it holds 32-bit floats in main memory, else through a buffer of such floats; large ones
// in several pieces, so that what arrives is swept and added while the rest is on its way.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "base/memory.h"
#include "runtime/gradient/whole.h"
#include "torch/staging_stream.h"

namespace flockstep::torch_front {

// One bucket: flat numbers, the gradients of some parameters one behind the other.
struct GradientBucket {
  at::Tensor numbers;
  std::vector<const void*> parameters;  // which they are, as long as the process lives
  std::vector<std::size_t> sizes;       // of their gradients
  StagingStream::Mark made = {};        // behind which the numbers are, on a device
};

// Throws Error{bad_input} for what cannot be exchanged: sparse numbers, types that lose in a float, no numbers at all.
void check_can_travel(const GradientBucket& bucket);

class GradientSlots {
 public:
  // For passes of these buckets. `whole_buckets` keeps each in one piece. Those on a device go through `staging`.
  GradientSlots(base::Memory& memory, const std::vector<GradientBucket>& buckets, bool whole_buckets,
                StagingStream* staging = nullptr);

  std::size_t count() const { return slots_.size(); }
  const runtime::Layout& layout() const { return layout_; }
  // The parameters behind the layout's tensors.
  const std::vector<const void*>& parameters() const { return parameters_; }
  bool fits(std::size_t slot, const GradientBucket& bucket) const;

  // A new pass; then its buckets, in order. fill() brings the numbers to where they are exchanged from, those on a
  // device by the time that its stream is done.
  void begin();
  void fill(const GradientBucket& bucket);
  // Stands for a bucket that will never come: nobody may use what is exchanged for it.
  void fill_with_nothing();
  // The numbers of the buckets filled so far.
  const runtime::Scattered& numbers() const { return numbers_; }

  // The pieces of a slot, in the layout's count of buckets.
  std::size_t first_piece(std::size_t slot) const { return slots_[slot].first_piece; }
  std::size_t end_piece(std::size_t slot) const { return slots_[slot].end_piece; }
  // The slot whose last piece this is; count() if it is none's.
  std::size_t slot_ended_by(std::size_t piece) const { return ended_by_[piece]; }
  // Writes the results back into the bucket that the slot was filled from.
  void write_back(std::size_t slot, const GradientBucket& bucket) const;

 private:
  struct Slot {
    std::vector<const void*> parameters;
    at::ScalarType type;
    std::size_t size, first_piece, end_piece;
    PinnedFloats apart;  // where the bucket itself cannot travel
  };
  static constexpr std::size_t kPieceFloats = std::size_t{1} << 20;

  base::Memory& memory_;
  StagingStream* const staging_;
  std::vector<Slot> slots_;
  std::vector<const void*> parameters_;
  std::vector<std::size_t> ended_by_;
  runtime::Layout layout_{0, 1};
  runtime::Scattered numbers_;
  std::size_t filled_ = 0;
  base::Buffer<float> nothing_;
};

}  // namespace flockstep::torch_front
