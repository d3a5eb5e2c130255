// Guards updates of models in the host's memory (math/update_guard.h): measures them, and leaves what the guard leaves.
#pragma once

#include <algorithm>
#include <array>

#include "math/update_guard.h"
#include "runtime/context.h"
#include "runtime/layout.h"

namespace flockstep::runtime {

struct Guarded {
  math::UpdateGuard* guard = nullptr;  // null: any update counts as it is; outlives whoever is told
  // So many numbers at the end of a model have no gradient, such as running statistics: they have to be finite, and
  // are not measured.
  std::size_t buffers = 0;

  // Updates are measured block by block, each of which stays in the cache meanwhile.
  static constexpr std::size_t kBlock = 16384;

  std::size_t measured(std::size_t model) const { return model - std::min(model, buffers); }
  // The beginning of a measurement: what does not count must be finite.
  math::UpdateGuard::Update begin(std::span<const float> model) const;
  // Adds the block, of a model of this many numbers that are measured. Every few blocks are sketched.
  static void add(math::UpdateGuard::Update& update, std::span<const float> model, std::span<const float> from,
                  Range block, std::size_t measured);
  // All of model - from.
  math::UpdateGuard::Update measure(Context& context, std::span<const float> model, std::span<const float> from) const;
  // model = from + factor (model - from); buffers stay, unless the factor is 0.
  void cut(Context& context, std::span<float> model, std::span<const float> from, double factor) const;
  void judge_and_cut(Context& context, std::span<float> model, std::span<const float> from) const {
    cut(context, model, from, guard->judge(measure(context, model, from)));
  }
};

}  // namespace flockstep::runtime
