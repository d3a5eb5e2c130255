// Collectives that carry figures, not data, on engines where data pretend to be larger than they are.
#pragma once

#include "engines/engine.h"

namespace flockstep::engines {

// Of engines that pretend sizes.
struct PretendsSizes {
  virtual ~PretendsSizes() = default;
  // Whether this worker's collectives now carry figures, which do not grow with the model.
  virtual void carry_figures(bool figures) = 0;
};

// While it lives, they do; nothing on engines where everything has the size that it has.
class CarriesFigures {
 public:
  explicit CarriesFigures(Engine& engine) : engine_(dynamic_cast<PretendsSizes*>(&engine)) { say(true); }
  ~CarriesFigures() { say(false); }
  CarriesFigures(const CarriesFigures&) = delete;
  CarriesFigures& operator=(const CarriesFigures&) = delete;

 private:
  void say(bool figures) {
    if (engine_) engine_->carry_figures(figures);
  }
  PretendsSizes* engine_;
};

}  // namespace flockstep::engines
