#include "bench/ring.h"

#include <algorithm>

#include "kernels/cpu/kernels.h"

namespace flockstep::bench {

Ring::Ring(runtime::Context& context, std::vector<int> members, std::size_t floats)
    : context_(context),
      members_(std::move(members)),
      place_(static_cast<std::size_t>(std::ranges::find(members_, context.rank()) - members_.begin())),
      parts_(floats, members_.size()),
      received_(context.engine().memory().allocate<float>(parts_.size(0), "ring")) {}

void Ring::pass(std::span<const float> sent, std::span<float> received) {
  const std::size_t size = members_.size();
  const auto sending = context_.engine().send(members_[(place_ + 1) % size], 0, engines::const_bytes_of(sent));
  const auto receiving =
      context_.engine().receive(members_[(place_ + size - 1) % size], 0, engines::bytes_of(received));
  context_.wait(receiving, "ring");
  context_.wait(sending, "ring");
}

void Ring::all_reduce(std::span<float> values) {
  const std::size_t size = members_.size(), rank = place_;
  for (std::size_t turn = 0; turn + 1 < size; ++turn) {
    const auto own = parts_.of(values, (rank + size - turn - 1) % size);
    const auto received = received_.span().first(own.size());
    pass(parts_.of(values, (rank + size - turn) % size), received);
    kernels::cpu::axpy(1.0f, std::span<const float>(received), own);
  }
  for (std::size_t turn = 0; turn + 1 < size; ++turn)
    pass(parts_.of(values, (rank + size - turn + 1) % size), parts_.of(values, (rank + size - turn) % size));
}

}  // namespace flockstep::bench
