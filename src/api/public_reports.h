// What algorithms tell about the workers, in the words of the public interface.
#pragma once

#include "flockstep/flockstep.h"
#include "session/session.h"

namespace flockstep::api {

// `report` is null where nobody looks at gradients.
StepReport step_report(const algorithms::GradientReport* report, const algorithms::GuardCounts& guards);
Meetings meetings(const session::Session& session);
std::vector<std::string> sentences(const std::vector<math::Finding>& findings);

}  // namespace flockstep::api
