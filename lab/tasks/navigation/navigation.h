// `navigation`: agents that learn to find their way in mazes. Here are its options and its row in the registry, and
// beside it all that needs no torch: mazes, views, episodes, rewards. The policy is in lab/tasks/torch.
#pragma once

#include "tasks/adam.h"
#include "tasks/navigation/advantages.h"
#include "tasks/navigation/mazes.h"
#include "tasks/registry.h"

namespace flockstep::tasks {

enum class Encoder { dense, resnet };

struct PolicyOptions {
  std::int64_t view = 5;  // cells across what an agent sees: odd
  Encoder encoder = Encoder::dense;
  std::int64_t image = 128;  // pixels across that a view is scaled to for a residual network
  std::int64_t width = 32;   // channels of the residual network's first stage
  std::int64_t hidden = 64;  // numbers that the policy remembers, in each of its layers
  std::int64_t layers = 1;
  bool memory = true;  // or the recurrent network begins anew with every action
};

struct PpoOptions {
  std::int64_t epochs = 2, minibatches = 2;  // a rollout is used for so many steps: their product
  double clip = 0.2;                         // how far the chance of an action may move, in proportion
  double entropy = 0.01;                     // weight of the policy's entropy, which keeps it trying
  double value = 0.5;                        // weight of the error of values
};

struct NavigationOptions {
  MazeOptions mazes;
  int limit = 50;  // actions of an episode
  PolicyOptions policy;
  PpoOptions ppo;
  AdvantageOptions advantages;
  AdamOptions adam;
  ShardOptions shard;
};

// Throws Error{bad_input}.
NavigationOptions navigation_options_of(const base::Settings& settings, int workers, std::int64_t steps);

TaskRow navigation_row();

}  // namespace flockstep::tasks
