#include "runtime/rounds/shared_rounds.h"

#include <array>

namespace flockstep::runtime {

void SharedRounds::freeze(std::size_t size, bool is_fresh) {
  size_ = size;
  is_fresh_ = is_fresh;
  if (!is_fresh) take({0, size});
}

void SharedRounds::ready(Range range) {
  if (is_fresh_) take(range);
}

void SharedRounds::take(Range range) {
  const std::span<float> to = range.of(c());
  context_.queue().copy(to.data(), range.of(x()).data(), to.size_bytes());
}

void SharedRounds::settle(Range part, std::span<const float> average) {
  if (!is_fresh_) correct(part, average, 1);
}

void SharedRounds::correct(Range part, std::span<const float> values, float share) {
  const std::span<float> own = part.of(c());
  const std::array<const void*, 2> rows{values.data(), own.data()};
  const std::array<double, 2> coefficients{share, -share};
  context_.queue().weighted_sum({rows, own.size()}, coefficients.data(), own);
}

void SharedRounds::complete(int) {
  if (!is_fresh_) move(c().first(size_));
  has_moved();
}

void SharedRounds::move(std::span<const float> correction) {
  context_.queue().axpy(1, correction, x().first(correction.size()));
}

void SharedRounds::give(std::span<float> values) const {
  context_.queue().copy(values.data(), x_.data(), x().size_bytes());
}

}  // namespace flockstep::runtime
