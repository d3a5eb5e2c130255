// What algorithms tell about the workers, in the words of the public interface.
#pragma once

#include "flockstep/flockstep.h"
#include "math/watch.h"
#include "session/session.h"

namespace flockstep::api {

StepReport step_report(const algorithms::Algorithm& algorithm);
Meetings meetings(const session::Session& session);
std::vector<std::string> sentences(const math::Watch& watch);

}  // namespace flockstep::api
