// The sum of a few doubles over all workers, equal to the last bit everywhere and on every engine.
//
// One owner per part adds in rank order; an engine's own all-reduce would choose an order of its own.
#pragma once

#include <span>

#include "engines/engine.h"

namespace flockstep::engines {

// While it lives, this worker's collectives carry figures, not data.
class CarriesFigures {
 public:
  explicit CarriesFigures(Engine& engine) : engine_(engine) { engine_.carry_figures(true); }
  ~CarriesFigures() { engine_.carry_figures(false); }
  CarriesFigures(const CarriesFigures&) = delete;
  CarriesFigures& operator=(const CarriesFigures&) = delete;

 private:
  Engine& engine_;
};

void all_reduce(Engine& engine, std::span<double> values, base::Time deadline);

}  // namespace flockstep::engines
