// Episodes that a policy walks all at once: the networks see one batch per action, of those that are not over.
#pragma once

#include <functional>

#include "tasks/navigation/rollout.h"
#include "tasks/torch/policy.h"

namespace flockstep::tasks {

// Walks every episode to its end, by actions drawn from the policy: `uniform(i)` gives the next number in [0, 1) for
// episode i. To be called without gradients.
std::vector<Track> walk(Policy& policy, const View& view, std::span<Episode> episodes,
                        const std::function<double(std::size_t episode)>& uniform);

}  // namespace flockstep::tasks
