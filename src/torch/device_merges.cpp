#include "torch/device_merges.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "base/text.h"
#include "flockstep/error.h"

namespace flockstep::torch_front {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;  // floats of a broadcast in pinned memory

std::span<float> attached(FlatModule& flat) {
  flat.attach_model();
  return {flat.flat_model().mutable_data_ptr<float>(), flat.parameters() + flat.buffers()};
}

}  // namespace

DeviceMerges::DeviceMerges(FlatModule& flat, std::unique_ptr<DevicePlace> place)
    : place_(std::move(place)),
      model_{.numbers = attached(flat),
             .beside = &place_->queue(),
             .current = [this]() -> kernels::Queue& { return place_->current(); },
             .allocate = [this](std::size_t bytes) { return place_->allocate(bytes); }} {
  place_->hold(flat.flat_model());  // which may end before the queue has come by
}

// In pieces: pinned memory for the whole would be kept by whoever allocates it.
void DeviceMerges::broadcast(runtime::Context& context) {
  const std::span<float> numbers = model_.numbers;
  if (numbers.empty() || context.size() == 1) return;
  const std::size_t most = std::min(kPiece, numbers.size());
  const auto pinned = std::reinterpret_pointer_cast<float>(model_.beside->allocate_on_host(most * sizeof(float)));
  const auto piece = context.engine().memory().adopt(pinned, most, "piece of a model");
  for (std::size_t begin = 0; begin < numbers.size(); begin += most) {
    const std::size_t floats = std::min(most, numbers.size() - begin);
    copy(context, piece.data(), numbers.data() + begin, floats);
    context.wait(context.engine().broadcast(engines::bytes_of(piece.span().first(floats)), 0), "broadcast");
    copy(context, numbers.data() + begin, piece.data(), floats);
  }
}

void DeviceMerges::copy(runtime::Context& context, void* to, const void* from, std::size_t floats) {
  kernels::Queue& queue = *model_.beside;
  queue.follow(model_.current());
  queue.copy(to, from, floats * sizeof(float));
  context.poll_for(queue.mark(), "the copy of a model");
}

std::unique_ptr<DevicePlace> place_of_merges(runtime::Context& context, const FlatModule& flat,
                                             const algorithms::Facts& facts) {
  if (!facts.merges_on_device || !flat.device().is_cuda() || context.size() == 1 || flat.parameters() == 0)
    return nullptr;
  try {
    const c10::DeviceGuard guard(flat.device());
    return cuda_place(flat.device());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unavailable) throw;
    base::log_info(context.log(), base::concatenated("models are averaged through main memory, and steps wait for it: ",
                                                     error.what()));
    return nullptr;
  }
}

std::unique_ptr<DeviceMerges> device_merges(runtime::Context& context, FlatModule& flat,
                                            const algorithms::AlgorithmRow& row, const base::Settings& options,
                                            const PlaceOfMerges& place) {
  row.check(options, context.size());
  auto made = place(context, flat, algorithms::facts_of(row, options, context.size()));
  return made ? std::make_unique<DeviceMerges>(flat, std::move(made)) : nullptr;
}

}  // namespace flockstep::torch_front
