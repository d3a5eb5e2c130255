#include "torch/gradient_slots.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "flockstep/error.h"

namespace flockstep::torch_front {
namespace {

bool can_travel_itself(const at::Tensor& numbers) {
  return numbers.scalar_type() == at::kFloat && numbers.device().is_cpu();
}

PinnedFloats floats_apart(base::Memory& memory, const at::Tensor& numbers) {
  const auto size = static_cast<std::size_t>(numbers.numel());
  if (!numbers.device().is_cpu()) return pinned_floats(memory, size, "gradients of a device");
  const auto buffer = memory.allocate<float>(size, "converted gradients");
  return {buffer, torch::from_blob(buffer.data(), {numbers.numel()}, at::kFloat)};
}

std::span<float> floats_of(const at::Tensor& numbers) {
  return {numbers.data_ptr<float>(), static_cast<std::size_t>(numbers.numel())};
}

}  // namespace

void check_can_travel(const GradientBucket& bucket) {
  const at::Tensor& numbers = bucket.numbers;
  if (numbers.layout() != at::kStrided)
    throw Error(ErrorCode::bad_input,
                "a parameter has a sparse gradient, which cannot be exchanged: make its Embedding with sparse=False");
  if (numbers.device().is_meta())
    throw Error(ErrorCode::bad_input, "gradients are on meta, where there are no numbers to exchange");
  const at::ScalarType type = numbers.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf)
    throw Error(ErrorCode::bad_input,
                base::concatenated("gradients of type ", c10::toString(type),
                                   " cannot be exchanged without loss: parameters are float32, bfloat16 "
                                   "or float16"));
  base::check(numbers.is_contiguous(), "flat numbers");
  // DDP shows complex numbers as twice as many real ones.
  if (static_cast<std::size_t>(numbers.numel()) !=
      std::accumulate(bucket.sizes.begin(), bucket.sizes.end(), std::size_t{0}))
    throw Error(ErrorCode::bad_input, "a parameter is complex, and only gradients of real numbers can be exchanged");
}

GradientSlots::GradientSlots(base::Memory& memory, const std::vector<GradientBucket>& buckets, bool whole_buckets,
                             StagingStream* staging)
    : memory_(memory), staging_(staging) {
  std::vector<std::size_t> pieces, tensors;
  for (const GradientBucket& bucket : buckets) {
    const auto size = static_cast<std::size_t>(bucket.numbers.numel());
    Slot& slot = slots_.emplace_back(Slot{bucket.parameters, bucket.numbers.scalar_type(), size, pieces.size(), 0, {}});
    if (!can_travel_itself(bucket.numbers)) slot.apart = floats_apart(memory, bucket.numbers);
    const std::size_t count = whole_buckets ? 1 : std::max<std::size_t>(1, (size + kPieceFloats - 1) / kPieceFloats);
    const base::Partition parts(size, count);
    for (std::size_t part = 0; part < count; ++part) pieces.push_back(parts.size(part));
    slot.end_piece = pieces.size();
    tensors.insert(tensors.end(), bucket.sizes.begin(), bucket.sizes.end());
    parameters_.insert(parameters_.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  layout_ = runtime::Layout::of_buckets(pieces, tensors);
  ended_by_.assign(layout_.buckets().size(), slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) ended_by_[slots_[slot].end_piece - 1] = slot;
}

bool GradientSlots::fits(std::size_t slot, const GradientBucket& bucket) const {
  if (slot >= slots_.size()) return false;
  const Slot& known = slots_[slot];
  return known.size == static_cast<std::size_t>(bucket.numbers.numel()) && known.type == bucket.numbers.scalar_type() &&
         known.parameters == bucket.parameters;
}

void GradientSlots::begin() {
  numbers_ = {};
  filled_ = 0;
}

void GradientSlots::fill(const GradientBucket& bucket) {
  Slot& slot = slots_[filled_++];
  if (can_travel_itself(bucket.numbers)) return numbers_.add(floats_of(bucket.numbers));
  const torch::NoGradGuard no_grad;
  if (bucket.numbers.device().is_cpu())
    slot.apart.tensor.copy_(bucket.numbers);
  else
    staging_->fetch(bucket.numbers, bucket.made, slot.apart.tensor);
  numbers_.add(slot.apart.buffer.span());
}

void GradientSlots::fill_with_nothing() {
  if (nothing_.size() == 0)
    nothing_ = memory_.allocate<float>(std::ranges::max(slots_, {}, &Slot::size).size, "a bucket that never came");
  numbers_.add(nothing_.span().first(slots_[filled_++].size));
}

void GradientSlots::write_back(std::size_t slot, const GradientBucket& bucket) const {
  if (can_travel_itself(bucket.numbers)) return;
  const torch::NoGradGuard no_grad;
  if (bucket.numbers.device().is_cpu())
    bucket.numbers.copy_(slots_[slot].apart.tensor);
  else
    staging_->put(slots_[slot].apart.tensor, bucket.numbers);
}

}  // namespace flockstep::torch_front
