// Averagers where there is nobody to average with: one worker takes its own steps, whichever it asked for.
#pragma once

#include <memory>
#include <utility>

#include "algorithms/registry.h"

namespace flockstep::algorithms {

class Alone final : public Algorithm, private Departures {
  bool meets_after(std::int64_t) const override { return false; }
  Departures* departures() override { return this; }  // nobody is there to miss it
  void leave() override {}
  void come_back(std::span<float>) override {}
  std::int64_t next_step(std::int64_t counted) const override { return counted; }
};

// The one place where a single worker is a case of its own: an Averager may count on others, now or later.
template <typename Averager, typename... More>
std::unique_ptr<Algorithm> make_averager(const AlgorithmInputs& inputs, More&&... more) {
  if (inputs.context.size() == 1 && !inputs.fingerprint) return std::make_unique<Alone>();
  return std::make_unique<Averager>(inputs, std::forward<More>(more)...);
}

// How many models an averager holds: so many, unless one worker takes its own steps.
template <int models>
double models_held_among_others(int workers, const base::Settings& /*settings*/) {
  return workers > 1 ? models : 0;
}

}  // namespace flockstep::algorithms
