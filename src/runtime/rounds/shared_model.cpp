#include "runtime/rounds/shared_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace flockstep::runtime {
namespace {

constexpr std::size_t kBlock = Guarded::kBlock;  // what one sweep has written is still in cache for the next

}  // namespace

SharedModel::SharedModel(Context& context, std::size_t size, const Guarded& guarded,
                         std::optional<math::OuterStep> outer)
    : context_(context),
      guarded_(guarded),
      outer_(outer),
      v_(outer ? context.engine().memory().allocate<float>(guarded.measured(size), "outer momentum")
               : base::Buffer<float>()),
      x_(context.engine().memory().allocate<float>(size, "shared model")),
      s_(context.engine().memory().allocate<float>(size, "snapshot of the shared model")),
      c_(context.engine().memory().allocate<float>(size, "contribution to an average")) {}

void SharedModel::begin_from(kernels::Queue& queue, std::span<const float> model) {
  base::check(model.size() == x_.size(), "a model of the size that was announced");
  queue.copy(x_.data(), model.data(), model.size_bytes());
  queue.copy(s_.data(), model.data(), model.size_bytes());
}

void SharedModel::reset(std::span<const float> model) { begin_from(context_.uncharged(), model); }

// The difference first: where x is still s, it becomes the model itself.
void SharedModel::add(kernels::Queue& queue, std::span<const float> model, Range range, double share) {
  const std::span<float> to = range.of(x());
  const std::array<const void*, 3> rows{range.of(model).data(), range.of(s()).data(), to.data()};
  queue.weighted_sum({rows, to.size()}, std::array{share, -share, 1.0}.data(), to);
}

// Blocks are added as long as the update is not too long. So what is subtracted again is not long either, and x keeps
// its digits, however long the whole is; numbers that are not finite are found before their block is added.
void SharedModel::add_guarded(kernels::Queue& queue, std::span<const float> model) {
  const std::size_t measured = guarded_.measured(model.size());
  const double longest = guarded_.guard->longest_squared();
  math::UpdateGuard::Update update = guarded_.begin(model);
  std::size_t added = 0;
  for (std::size_t begin = 0; begin < measured && std::isfinite(update.squared_norm); begin += Guarded::kBlock) {
    const Range block{begin, std::min(Guarded::kBlock, measured - begin)};
    Guarded::add(update, model, s(), block, measured);
    if (!std::isfinite(update.squared_norm) || update.squared_norm > longest) continue;
    add(queue, model, block);
    added = block.end();
  }
  const double factor = guarded_.guard->judge(update);
  if (factor != 1) add(queue, model, {0, added}, factor - 1);
  if (factor == 0) return;
  add(queue, model, {added, measured - added}, factor);
  add(queue, model, {measured, model.size() - measured});
}

void SharedModel::arrive(std::span<float> model) {
  context_.charge_together([&](kernels::Queue& queue) {
    if (outer_)
      step(queue, model);
    else if (guarded_.guard)
      add_guarded(queue, model);
    else
      add(queue, model, {0, model.size()});
  });
}

void SharedModel::proceed(std::span<float> model) {
  context_.charge_together([&](kernels::Queue& queue) {
    queue.copy(s_.data(), x_.data(), x().size_bytes());
    queue.copy(model.data(), x_.data(), x().size_bytes());
  });
}

// The second copy is free: both read from the cache, and two writes take as long as one copy.
void SharedModel::hand_over(std::span<float> model) {
  base::check(model.size() == x_.size(), "a model of the size that was announced");
  if (guarded_.guard || outer_) {
    arrive(model);
    return proceed(model);
  }
  context_.charge_together([&](kernels::Queue& queue) {
    for (std::size_t begin = 0; begin < model.size(); begin += kBlock) {
      const Range block{begin, std::min(kBlock, model.size() - begin)};
      const std::span<const float> landed = block.of(x());
      add(queue, model, block);
      queue.copy(block.of(s()).data(), landed.data(), landed.size_bytes());
      context_.uncharged().copy(block.of(model).data(), landed.data(), landed.size_bytes());
    }
  });
}

void SharedModel::rest(std::span<float> model) {
  const auto outer = std::exchange(outer_, std::nullopt);
  hand_over(model);
  outer_ = outer;
}

void SharedModel::step(kernels::Queue& queue, std::span<const float> model) {
  const double f = guarded_.guard ? guarded_.guard->judge(guarded_.measure(context_, model, s())) : 1;
  const Range measured{0, v_.size()}, rest{v_.size(), model.size() - v_.size()};
  const double rate = outer_->rate, momentum = outer_->momentum;
  const std::array<const void*, 4> rows{v_.data(), model.data(), s_.data(), x_.data()};
  queue.weighted_sum({std::span(rows).first(3), measured.size}, std::array{momentum, f, -f}.data(), v_.span());
  queue.weighted_sum({rows, measured.size}, std::array{rate * momentum, rate * f, -rate * f, 1.0}.data(),
                     measured.of(x()));
  if (f > 0) add(queue, model, rest);
}

void SharedModel::freeze(std::size_t size, bool is_fresh) {
  size_ = size;
  is_fresh_ = is_fresh;
  if (!is_fresh) context_.queue().copy(c().data(), x().data(), size * sizeof(float));
}

void SharedModel::settle(Range part, std::span<const float> average) {
  if (!is_fresh_) correct(part, average, 1);
}

void SharedModel::correct(Range part, std::span<const float> values, float share) {
  const std::span<float> own = part.of(c());
  const std::array<const void*, 2> rows{values.data(), own.data()};
  const std::array<double, 2> coefficients{share, -share};
  context_.queue().weighted_sum({rows, own.size()}, coefficients.data(), own);
}

void SharedModel::complete(int) {
  if (!is_fresh_) return context_.queue().axpy(1, c().first(size_), x().first(size_));
  const std::span<const float> rest = x().subspan(size_);
  context_.queue().copy(c().subspan(size_).data(), rest.data(), rest.size_bytes());
  std::swap(x_, c_);
}

void SharedModel::give(std::span<float> values) { context_.queue().copy(values.data(), x_.data(), x().size_bytes()); }

void SharedModel::rejoin(std::span<float> values, bool is_adopted) {
  if (!is_adopted) return proceed(values);
  context_.charge_together([&](kernels::Queue& queue) { begin_from(queue, values); });
}

}  // namespace flockstep::runtime
