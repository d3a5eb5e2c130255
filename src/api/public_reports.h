// What algorithms tell about the workers, in the words of the public interface.
#pragma once

#include "algorithms/session.h"
#include "flockstep/flockstep.h"
#include "math/watch.h"

namespace flockstep::api {

StepReport step_report(const algorithms::Algorithm& algorithm);
Meetings meetings(const algorithms::Session& session);
std::vector<std::string> sentences(const math::Watch& watch);

}  // namespace flockstep::api
