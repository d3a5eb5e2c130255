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

void SharedModel::freeze(std::size_t size, bool is_synchronisation) {
  size_ = size;
  is_synchronisation_ = is_synchronisation;
  std::ranges::copy(x().first(size), c().begin());
  charge(2, size);
}

void SharedModel::settle(Range part, std::span<const float> average) {
  if (is_synchronisation_)
    std::ranges::copy(average, part.of(c()).begin());
  else
    kernels::subtract_from(average, part.of(c()));
  charge(3, part.size);
}

// In a synchronisation nobody's update can have landed since the round began: the worker waits.
void SharedModel::complete(int) {
  if (is_synchronisation_)
    std::ranges::copy(c().first(size_), x().begin());
  else
    kernels::axpy(1, c().first(size_), x().first(size_));
  charge(3, size_);
}

}  // namespace flockstep::runtime
