// Whole episodes as a worker walked them: what a few steps of PPO learn from.
#pragma once

#include <vector>

#include "base/archive.h"
#include "tasks/navigation/advantages.h"
#include "tasks/navigation/episode.h"
#include "tasks/navigation/view.h"

namespace flockstep::tasks {

// One episode: a line per action.
struct Track {
  std::vector<std::int8_t> views;  // one behind the other
  std::vector<GoalSense> goals;
  std::vector<std::int8_t> actions;
  std::vector<float> log_chances;  // of the action, when it was taken
  std::vector<float> rewards, values;
  std::vector<float> advantages, returns;  // which follow from rewards and values

  std::size_t size() const { return actions.size(); }
};

struct Rollout {
  std::int64_t first_step = 0;  // of the run: when it was collected
  std::vector<Track> tracks;

  std::size_t actions() const;
  // Advantages come to mean zero and deviation one over the rollout; returns are what values should have been.
  void estimate(const AdvantageOptions& options);

  // All but what estimate() finds again.
  void save(base::Archive& archive) const;
  // Throws Error{bad_file} if the parts do not fit together or hold no actions that there are.
  static Rollout restore(const base::Archive& archive, std::size_t cells_of_view);
};

}  // namespace flockstep::tasks
