#include "runtime/guarded.h"

#include <limits>

#include "kernels/cpu/kernels.h"

namespace flockstep::runtime {
namespace {

// The same for all steps, so that updates of different steps can be compared.
constexpr kernels::SketchKey kKey{0x5eed0f1eu, 0x0c0ffee5u};

// Of large models a sixteenth is sketched: enough for a cosine, and hardly any work.
std::size_t stride_of(std::size_t measured) { return std::clamp<std::size_t>(measured / Guarded::kBlock / 16, 1, 16); }

}  // namespace

math::UpdateGuard::Update Guarded::begin(std::span<const float> model) const {
  const bool are_finite = !kernels::cpu::has_non_finite(model.subspan(measured(model.size())));
  return {.squared_norm = are_finite ? 0 : std::numeric_limits<double>::infinity()};
}

void Guarded::add(math::UpdateGuard::Update& update, std::span<const float> model, std::span<const float> from,
                  Range block, std::size_t measured) {
  update.squared_norm += kernels::cpu::squared_distance(block.of(model), block.of(from));
  if (block.begin / kBlock % stride_of(measured) != 0) return;
  std::array<float, kBlock> difference;
  for (std::size_t k = 0; k < block.size; ++k) difference[k] = model[block.begin + k] - from[block.begin + k];
  kernels::cpu::sketch(std::span<const float>(difference).first(block.size), kKey,
                       static_cast<std::uint32_t>(block.begin / kernels::kSketchChunk), update.sketch);
}

math::UpdateGuard::Update Guarded::measure(Context& context, std::span<const float> model,
                                           std::span<const float> from) const {
  math::UpdateGuard::Update update = begin(model);
  const std::size_t size = measured(model.size());
  for (std::size_t begin = 0; begin < size; begin += kBlock)
    add(update, model, from, {begin, std::min(kBlock, size - begin)}, size);
  context.engine().charge(2 * static_cast<double>(model.size_bytes()));
  return update;
}

// A row whose coefficient is zero is not read: NaN does not spread.
void Guarded::cut(Context& context, std::span<float> model, std::span<const float> from, double factor) const {
  if (factor == 1) return;
  const std::size_t size = factor > 0 ? measured(model.size()) : model.size();
  const std::array<const void*, 2> rows{model.data(), from.data()};
  const std::array<double, 2> coefficients{factor, 1 - factor};
  context.queue().weighted_sum({rows, size}, coefficients.data(), model.first(size));
}

}  // namespace flockstep::runtime
