// Averagers where there is nobody to average with: one worker takes its own steps, whichever it asked for.
#pragma once

#include <memory>
#include <utility>

#include "algorithms/algorithm.h"

namespace flockstep::algorithms {

// Whether the averager keeps replicas apart over a checkpoint: then one worker must not go on from what several saved.
enum class Checkpoint { together, apart };

class Alone final : public Algorithm {
 public:
  explicit Alone(Checkpoint checkpoint) : checkpoint_(checkpoint) {}
  bool may_leave() const override { return true; }  // nobody is there to miss it
  void leave() override {}
  void come_back(std::span<float>) override {}
  bool replicas_are_equal() const override { return true; }
  bool resumes_apart() const override { return checkpoint_ == Checkpoint::apart; }

 private:
  Checkpoint checkpoint_;
};

// The one place where a single worker is a case of its own: an Averager may count on others.
template <typename Averager, typename... More>
std::unique_ptr<Algorithm> make_averager(const AlgorithmInputs& inputs, Checkpoint checkpoint, More&&... more) {
  if (inputs.context.size() == 1) return std::make_unique<Alone>(checkpoint);
  return std::make_unique<Averager>(inputs, std::forward<More>(more)...);
}

// How many models an averager holds: so many, unless one worker takes its own steps.
template <int models>
double models_held_among_others(int workers, const base::Settings& /*settings*/) {
  return workers > 1 ? models : 0;
}

}  // namespace flockstep::algorithms
