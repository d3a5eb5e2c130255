// The loss of proximal policy optimization (Schulman et al., 2017) on episodes of uneven lengths.
#pragma once

#include "tasks/navigation/rollout.h"
#include "tasks/torch/policy.h"

namespace flockstep::tasks {

// Episodes beside each other, those that are over filled up: actions x episodes x ...
struct PpoBatch {
  Policy::Inputs inputs;
  torch::Tensor actions, log_chances, advantages, returns;
  torch::Tensor taken;  // 1 where there was an action, 0 behind an episode's end

  PpoBatch to(torch::Device device) const;
};
PpoBatch batch_of(std::span<const Track> tracks, std::int64_t view);

// The mean over all actions taken of  -min(r A, clip(r, 1 - clip, 1 + clip) A) + value (V - return)^2 / 2 - entropy H,
// where r is how much likelier the action has become.
torch::Tensor ppo_loss(const Policy::Outputs& outputs, const PpoBatch& batch, const PpoOptions& options);

}  // namespace flockstep::tasks
