#include "torch/collective.h"

#include <algorithm>

#include "base/text.h"

namespace flockstep::torch_front {

void add_own_tensors(runtime::Agreed& agreed, const FlatModule& flat) {
  for (std::size_t index = 0; index < flat.descriptions().size(); ++index)
    agreed.emplace_back(base::concatenated("as tensor ", index), flat.descriptions()[index]);
}

void add_tensors(runtime::Agreed& agreed, runtime::Context& context, const FlatModule& flat) {
  // Whoever has fewer tensors than another has nothing in the places behind them.
  const auto mine = static_cast<double>(flat.descriptions().size());
  const std::vector<double> counts = runtime::gather_doubles(context, {&mine, 1});
  for (std::size_t index = 0; index < static_cast<std::size_t>(std::ranges::max(counts)); ++index)
    agreed.emplace_back(base::concatenated("as tensor ", index),
                        index < flat.descriptions().size() ? flat.descriptions()[index] : "nothing");
}

void broadcast_model(runtime::Context& context, FlatModule& flat, std::span<float> model) {
  flat.collect_model();
  flat.fetch_model();
  context.wait(context.engine().broadcast(engines::bytes_of(model), 0), "broadcast");
  flat.put_model();
  flat.spread_model();
  broadcast_each(context, flat.fixed());
}

void broadcast_model(runtime::Context& context, FlatModule& flat, DeviceMerges& merges) {
  flat.collect_model();
  merges.broadcast(context);
  flat.spread_model();
  broadcast_each(context, flat.fixed());
}

// No mode is set across the wait: on sim all workers share a thread, and with it torch's mode for gradients.
void broadcast_each(runtime::Context& context, const std::vector<torch::Tensor>& tensors) {
  const auto room_of = [](const torch::Tensor& tensor) { return (tensor.nbytes() + 15) / 16 * 16; };  // aligned
  std::size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += room_of(tensor);
  if (bytes == 0) return;
  const auto all = context.engine().memory().allocate<std::byte>(bytes, "fixed tensors");
  const auto with_each = [&](const auto& action) {
    const torch::NoGradGuard no_grad;
    std::size_t place = 0;
    for (const torch::Tensor& tensor : tensors) {
      action(tensor, torch::from_blob(all.data() + place, tensor.sizes(), tensor.scalar_type()));
      place += room_of(tensor);
    }
  };
  with_each([](const torch::Tensor& tensor, const torch::Tensor& copy) { copy.copy_(tensor); });
  context.wait(context.engine().broadcast(all.span(), 0), "broadcast");
  with_each([](const torch::Tensor& tensor, const torch::Tensor& copy) { tensor.copy_(copy); });
}

// As a rule nobody lacks a gradient, and one number tells.
std::vector<bool> unused_everywhere(runtime::Context& context, const std::vector<bool>& unused) {
  const auto lacking = static_cast<double>(std::ranges::count(unused, true));
  if (context.all_reduce({lacking}, "unused parameters").front() == 0) return unused;
  const std::vector<double> workers = context.all_reduce({unused.begin(), unused.end()}, "unused parameters");
  std::vector<bool> everywhere;
  for (const double count : workers) everywhere.push_back(count == context.size());
  return everywhere;
}

}  // namespace flockstep::torch_front
