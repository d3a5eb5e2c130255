#include "simulation/checker.h"

namespace flockstep::simulation {

Checkers make_checkers(const Truth& truth) {
  Checkers checkers;
  add_round_checkers(checkers, truth);
  add_part_checkers(checkers, truth);
  add_waiting_checkers(checkers, truth);
  add_number_checkers(checkers, truth);
  return checkers;
}

}  // namespace flockstep::simulation
