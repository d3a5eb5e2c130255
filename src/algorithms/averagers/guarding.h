// The option `guard` of all averagers, and what those need for it that keep no snapshot of their own.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/archive.h"
#include "base/settings.h"
#include "math/watch.h"
#include "runtime/context.h"
#include "runtime/guarded.h"

namespace flockstep::algorithms {

constexpr base::OptionSpec kGuardOption{
    "guard", "on",
    "on: an update longer than twice the others' is clipped to that, and one that is not finite is left out"};
bool guard_of(const base::SettingsReader& reader);

// Findings about this worker (`rank`) and about the workers that it has heard of: an update that is not finite, or
// updates that are cut most of the time, next to nothing, or astray (math/update_guard.h).
std::vector<math::Finding> findings_of(const math::UpdateGuard& guard, int rank);

// How many norms are remembered where those of everybody are heard.
inline std::size_t remembered_of_all(int workers) {
  return std::max(math::UpdateGuard::kHeard, static_cast<std::size_t>(workers - 1));
}

// The worker's model right after the last average, from which its updates are measured; nothing where there is no
// guard. Before begin() or the first average nothing is known, and nothing is cut.
class GuardedUpdates {
 public:
  // `size` 0: there is no such model, and updates are from others.
  GuardedUpdates(runtime::Context& context, std::size_t size, std::size_t buffers, bool is_guarded,
                 std::size_t remembered = math::UpdateGuard::kHeard);

  math::UpdateGuard* guard() { return guard_ ? &*guard_ : nullptr; }
  // Where an update has begun, the model that it began from, too.
  void save(base::Archive& archive) const;
  void restore(const base::Archive& archive);
  // Of this worker, and of others who make the same updates.
  std::vector<math::Finding> findings() const;
  // The worker goes on from this model; after a restore() from the one that was restored.
  void begin(std::span<const float> model);
  void count_step() {
    if (guard_) guard_->count_step();
  }
  // Cuts the update since the last begin() by what was heard so far.
  void cut(std::span<float> model) {
    if (has_begun_) cut(model, snapshot_.span());
  }
  // The same for a copy, before the update ends.
  void cut_copy(std::span<float> model) const {
    if (has_begun_) cut_copy(model, snapshot_.span());
  }
  // Collective: the same by what the others have done in this very update. Returns who of `counted` has one that is
  // finite; where nobody has, the models are what they were.
  std::vector<bool> cut_together(std::span<float> model, std::vector<bool> counted) {
    return has_begun_ ? cut_together(model, snapshot_.span(), std::move(counted)) : counted;
  }
  // All three for an update from another model, for those who keep one.
  void cut(std::span<float> model, std::span<const float> from);
  void cut_copy(std::span<float> model, std::span<const float> from) const;
  std::vector<bool> cut_together(std::span<float> model, std::span<const float> from, std::vector<bool> counted);
  // Collective: hears of everybody's last update.
  void hear_all();

 private:
  runtime::Context& context_;
  const std::size_t buffers_;
  std::optional<math::UpdateGuard> guard_;
  base::Buffer<float> snapshot_;
  bool has_begun_ = false, is_restored_ = false;
  std::vector<std::int64_t> alike_;  // averages on end in which another worker's update was the same, by rank
};

}  // namespace flockstep::algorithms
