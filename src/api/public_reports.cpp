#include "api/public_reports.h"

#include <cmath>

namespace flockstep::api {

StepReport step_report(const algorithms::GradientReport* report, const algorithms::GuardCounts& guards) {
  StepReport result;
  result.guards = {{"non_finite", guards.non_finite},
                   {"all_zero", guards.all_zero},
                   {"unsafe", guards.unsafe},
                   {"clipped", guards.clipped}};
  if (!report) return result;
  result.event = math::to_string(report->event);
  result.coefficients = report->coefficients;
  for (const double square : report->statistics.q) result.norms.push_back(std::sqrt(square));
  result.agreement = math::agreement(report->statistics);
  return result;
}

Meetings meetings(const session::Session& session) {
  const algorithms::MeetingReport all = session.meetings();
  return {all.fresh, all.stale, all.alone, all.synchronised, all.staleness, all.round_s};
}

std::vector<std::string> sentences(const std::vector<math::Finding>& findings) {
  std::vector<std::string> sentences;
  for (const math::Finding& finding : findings) sentences.push_back(finding.sentence);
  return sentences;
}

}  // namespace flockstep::api
