#include "runtime/rounds/shared_model.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace flockstep::runtime {
namespace {

constexpr std::size_t kBlock = 4096;  // floats: what one sweep has written is still in cache for the next

}  // namespace

SharedModel::SharedModel(Context& context, std::size_t size)
    : SharedRounds(context, context.engine().memory().allocate<float>(size, "shared model"),
                   context.engine().memory().allocate<float>(size, "contribution to an average")),
      s_(context.engine().memory().allocate<float>(size, "snapshot of the shared model")) {}

void SharedModel::begin_from(kernels::Queue& queue, std::span<const float> model) {
  base::check(model.size() == x_.size(), "a model of the size that was announced");
  queue.copy(x_.data(), model.data(), model.size_bytes());
  queue.copy(s_.data(), model.data(), model.size_bytes());
}

void SharedModel::reset(std::span<const float> model) { begin_from(context_.uncharged(), model); }

// The difference first: where x is still s, it becomes the model itself.
void SharedModel::add(kernels::Queue& queue, std::span<const float> model, std::size_t begin) {
  const std::span<float> to = x().subspan(begin, model.size());
  const std::array<const void*, 3> rows{model.data(), s().subspan(begin).data(), to.data()};
  queue.weighted_sum({rows, to.size()}, std::array{1.0, -1.0, 1.0}.data(), to);
}

void SharedModel::arrive(std::span<float> model) { add(context_.queue(), model, 0); }

void SharedModel::proceed(std::span<float> model) {
  context_.charge_together([&](kernels::Queue& queue) {
    queue.copy(s_.data(), x_.data(), x().size_bytes());
    queue.copy(model.data(), x_.data(), x().size_bytes());
  });
}

// The second copy is free: both read from the cache, and two writes take as long as one copy.
void SharedModel::hand_over(std::span<float> model) {
  base::check(model.size() == x_.size(), "a model of the size that was announced");
  context_.charge_together([&](kernels::Queue& queue) {
    for (std::size_t begin = 0; begin < model.size(); begin += kBlock) {
      const Range block{begin, std::min(kBlock, model.size() - begin)};
      const std::span<const float> landed = block.of(x());
      add(queue, block.of(model), begin);
      queue.copy(block.of(s()).data(), landed.data(), landed.size_bytes());
      context_.uncharged().copy(block.of(model).data(), landed.data(), landed.size_bytes());
    }
  });
}

void SharedModel::rejoin(std::span<float> values, bool is_adopted) {
  if (!is_adopted) return proceed(values);
  context_.charge_together([&](kernels::Queue& queue) { begin_from(queue, values); });
}

}  // namespace flockstep::runtime
