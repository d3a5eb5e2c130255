#include "runtime/shared_model.h"

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/merge.h"

namespace flockstep::runtime {

SharedModel::SharedModel(Context& context, std::size_t size)
    : context_(context),
      x_(context.engine().memory().allocate<float>(size, "shared model")),
      s_(context.engine().memory().allocate<float>(size, "snapshot")),
      c_(context.engine().memory().allocate<float>(size, "contribution to a round")) {}

void SharedModel::charge(double sweeps, std::size_t size) {
  context_.engine().charge(sweeps * static_cast<double>(size * sizeof(float)));
}

void SharedModel::reset(std::span<const float> model) {
  std::ranges::copy(model, x().begin());
  std::ranges::copy(model, s().begin());
}

void SharedModel::arrive(std::span<float> model) {
  kernels::add_difference(x(), model, s());
  charge(4, model.size());
}

void SharedModel::proceed(std::span<float> model) {
  std::ranges::copy(x(), s().begin());
  std::ranges::copy(x(), model.begin());
  charge(4, model.size());
}

void SharedModel::freeze(std::size_t size, bool is_fresh) {
  size_ = size;
  is_fresh_ = is_fresh;
  if (!is_fresh) take({0, size});
}

void SharedModel::ready(Range range) {
  if (is_fresh_) take(range);
}

void SharedModel::take(Range range) {
  std::ranges::copy(range.of(x()), range.of(c()).begin());
  charge(2, range.size);
}

void SharedModel::settle(Range part, std::span<const float> average) {
  if (is_fresh_) return;
  kernels::subtract_from(average, part.of(c()));
  charge(3, part.size);
}

void SharedModel::complete(int) {
  if (is_fresh_) return;
  kernels::axpy(1, c().first(size_), x().first(size_));
  charge(3, size_);
}

}  // namespace flockstep::runtime
