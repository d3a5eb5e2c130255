#include "runtime/rounds/shared_model.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cpu/kernels.h"

namespace flockstep::runtime {
namespace {

constexpr std::size_t kBlock = 4096;  // floats: what one sweep has written is still in cache for the next

}  // namespace

SharedModel::SharedModel(Context& context, std::size_t size)
    : context_(context),
      x_(context.engine().memory().allocate<float>(size, "shared model")),
      s_(context.engine().memory().allocate<float>(size, "snapshot of the shared model")),
      c_(context.engine().memory().allocate<float>(size, "contribution to an average")) {}

void SharedModel::charge(double sweeps, std::size_t size) const {
  context_.engine().charge(sweeps * static_cast<double>(size * sizeof(float)));
}

void SharedModel::reset(std::span<const float> model) {
  base::check(model.size() == x_.size(), "a model of the size that was announced");
  std::ranges::copy(model, x().begin());
  std::ranges::copy(model, s().begin());
}

// The difference first: where x is still s, it becomes the model itself.
void SharedModel::land(std::span<const float> model, std::size_t begin) {
  const std::span<float> to = x().subspan(begin, model.size());
  const std::array<const float*, 3> rows{model.data(), s().subspan(begin).data(), to.data()};
  kernels::cpu::weighted_sum(rows, std::array{1.0f, -1.0f, 1.0f}, to);
}

void SharedModel::arrive(std::span<float> model) {
  land(model, 0);
  charge(4, model.size());
}

void SharedModel::proceed(std::span<float> model) {
  std::ranges::copy(x(), s().begin());
  std::ranges::copy(x(), model.begin());
  charge(4, model.size());
}

void SharedModel::arrive_and_proceed(std::span<float> model) {
  base::check(model.size() == x_.size(), "a model of the size that was announced");
  for (std::size_t begin = 0; begin < model.size(); begin += kBlock) {
    const Range block{begin, std::min(kBlock, model.size() - begin)};
    land(block.of(model), begin);
    std::ranges::copy(block.of(x()), block.of(s()).begin());
    std::ranges::copy(block.of(x()), block.of(model).begin());
  }
  charge(6, model.size());
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
  if (!is_fresh_) correct(part, average, 1);
}

void SharedModel::correct(Range part, std::span<const float> values, float share) {
  const std::span<float> own = part.of(c());
  const std::array<const float*, 2> rows{values.data(), own.data()};
  kernels::cpu::weighted_sum(rows, std::array{share, -share}, own);
  charge(3, part.size);
}

void SharedModel::give(std::span<float> values) const {
  std::ranges::copy(x(), values.begin());
  charge(2, values.size());
}

void SharedModel::rejoin(std::span<float> values, bool is_adopted) {
  if (!is_adopted) return proceed(values);
  reset(values);
  charge(4, values.size());
}

void SharedModel::complete(int) {
  if (is_fresh_) return;
  kernels::cpu::axpy(1, std::span<const float>(c().first(size_)), x().first(size_));
  charge(3, size_);
}

}  // namespace flockstep::runtime
