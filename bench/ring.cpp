#include "bench/ring.h"

#include "kernels/kernels.h"

namespace flockstep::bench {

Ring::Ring(runtime::Context& context, std::size_t floats)
    : context_(context),
      parts_(floats, static_cast<std::size_t>(context.size())),
      received_(context.engine().memory().allocate<float>(parts_.size(0), "ring")) {}

void Ring::pass(std::span<const float> sent, std::span<float> received) {
  const int size = context_.size(), rank = context_.rank();
  const auto sending = context_.engine().send((rank + 1) % size, 0, engines::const_bytes_of(sent));
  const auto receiving = context_.engine().receive((rank + size - 1) % size, 0, engines::bytes_of(received));
  context_.wait(receiving, "ring");
  context_.wait(sending, "ring");
}

void Ring::all_reduce(std::span<float> values) {
  const auto size = static_cast<std::size_t>(context_.size()), rank = static_cast<std::size_t>(context_.rank());
  for (std::size_t turn = 0; turn + 1 < size; ++turn) {
    const auto own = parts_.of(values, (rank + size - turn - 1) % size);
    const auto received = received_.span().first(own.size());
    pass(parts_.of(values, (rank + size - turn) % size), received);
    kernels::axpy(1.0f, std::span<const float>(received), own);
  }
  for (std::size_t turn = 0; turn + 1 < size; ++turn)
    pass(parts_.of(values, (rank + size - turn + 1) % size), parts_.of(values, (rank + size - turn) % size));
}

}  // namespace flockstep::bench
