// What algorithms tell about the workers, in the words of the public interface.
#pragma once

#include "algorithms/session.h"
#include "flockstep/flockstep.h"
#include "math/watch.h"

namespace flockstep::algorithms {

StepReport step_report(const Algorithm& algorithm);
Meetings meetings(const Session& session);
std::vector<std::string> sentences(const math::Watch& watch);

}  // namespace flockstep::algorithms
