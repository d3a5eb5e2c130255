#include "runtime/rounds/shared_rounds.h"

#include <array>
#include <utility>

namespace flockstep::runtime {

void SharedRounds::freeze(std::size_t size, bool is_fresh) {
  size_ = size;
  is_fresh_ = is_fresh;
  if (!is_fresh) context_.queue().copy(c().data(), x().data(), size * sizeof(float));
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
  if (is_fresh_) {
    const std::span<const float> rest = x().subspan(size_);
    context_.queue().copy(c().subspan(size_).data(), rest.data(), rest.size_bytes());
    std::swap(x_, c_);
  } else {
    move(c().first(size_));
  }
  has_moved();
}

void SharedRounds::move(std::span<const float> correction) {
  context_.queue().axpy(1, correction, x().first(correction.size()));
}

void SharedRounds::give(std::span<float> values) const {
  context_.queue().copy(values.data(), x_.data(), x().size_bytes());
}

}  // namespace flockstep::runtime
