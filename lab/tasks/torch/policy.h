// The policy of `navigation`, as that of DD-PPO (Wijmans et al., 2019): an encoder of views, a few numbers for the goal
// and for the last action, and an LSTM over all of it that gives scores of the actions and the value of the state.
#pragma once

#include <torch/nn/module.h>

#include "tasks/navigation/navigation.h"

namespace flockstep::tasks {

class ViewEncoder;
class PolicyInputs;
class Lstm;
class Heads;

class Policy : public torch::nn::Module {
 public:
  explicit Policy(const PolicyOptions& options);

  // What it remembers of each episode: layers x episodes x hidden.
  struct State {
    torch::Tensor output, cell;
  };
  // On the device that the policy is on.
  State first_state(std::int64_t episodes) const;

  // Each actions x episodes x ...: views of view x view cells, goals of 3 numbers, and the action before this one as a
  // whole number, kNoAction at first.
  struct Inputs {
    torch::Tensor views, goals, last_actions;

    Inputs to(torch::Device device) const { return {views.to(device), goals.to(device), last_actions.to(device)}; }
  };
  struct Outputs {
    torch::Tensor scores, values;  // actions x episodes x kActions, and actions x episodes
  };
  // `state` goes on to where the inputs end; without memory it stays as it is.
  Outputs forward(const Inputs& inputs, State& state);

  // Dense layers are uniform within 1 / sqrt(inputs), but that of the scores is near zero, so that an untrained policy
  // tries all actions alike.
  void reset(std::uint64_t seed);

 private:
  PolicyOptions options_;
  std::shared_ptr<ViewEncoder> encoder_;
  std::shared_ptr<PolicyInputs> embedding_;
  std::shared_ptr<Lstm> lstm_;
  std::shared_ptr<Heads> heads_;
};

}  // namespace flockstep::tasks
