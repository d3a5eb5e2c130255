#include "api/public_reports.h"

#include <cmath>

namespace flockstep::api {

StepReport step_report(const algorithms::Algorithm& algorithm) {
  StepReport result;
  const algorithms::GuardCounts guards = algorithm.guards();
  result.guards = {{"non_finite", guards.non_finite}, {"all_zero", guards.all_zero}, {"unsafe", guards.unsafe}};
  const algorithms::GradientReport* const report = algorithm.report();
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

std::vector<std::string> sentences(const math::Watch& watch) {
  std::vector<std::string> sentences;
  for (const math::Finding& finding : watch.findings()) sentences.push_back(finding.sentence);
  return sentences;
}

}  // namespace flockstep::api
