#include "bench/calibrated_platform.h"

#include <fmt/format.h>

#include <algorithm>

namespace flockstep::bench {
namespace {

// Between 1, where sending costs the sender nothing, and 1/2, where it costs as much as receiving.
constexpr double kSendersCopyBelow = 0.7;
// What all at once get less than each alone by so little is not worth a link.
constexpr double kShared = 0.97;

}  // namespace

PlatformPlan plan_of(const Calibration& calibration) {
  const bool senders_copy = calibration.both_ways < kSendersCopyBelow * calibration.one_way;
  PlatformPlan plan{.processor = (senders_copy ? 2 : 1) * calibration.both_ways,
                    .senders_copy = senders_copy,
                    .latency_s = calibration.latency_s,
                    .asleep_share = std::clamp(calibration.asleep / calibration.both_ways, 0.001, 1.0),
                    .sums = std::min(calibration.sums, calibration.copies)};
  if (calibration.all_at_once < kShared * calibration.both_ways)
    plan.memory = calibration.all_at_once * calibration.workers;
  return plan;
}

std::string platform_file(const Calibration& calibration, const std::string& machine) {
  const PlatformPlan plan = plan_of(calibration);
  std::string text = fmt::format(
      "<?xml version='1.0'?>\n"
      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<!-- {}\n"
      "     Made by flockstep calibrate with {} workers: a message into a worker takes its processor{}, and so do its\n"
      "     sums{}. -->\n"
      "<platform version=\"4.1\">\n"
      "  <zone id=\"machine\" routing=\"Full\">\n"
      "    <prop id=\"flockstep.memory_gbytes_s\" value=\"{:.4g}\"/>\n"
      "    <prop id=\"flockstep.sums_share_links\" value=\"yes\"/>\n"
      "    <prop id=\"flockstep.asleep_share\" value=\"{:.4g}\"/>\n",
      machine, calibration.workers, plan.senders_copy ? " and the sender's" : "",
      plan.memory > 0 ? "; messages share the memory" : "", plan.sums / 1e9, plan.asleep_share);
  for (int i = 0; i < calibration.workers; ++i) text += fmt::format("    <host id=\"worker{}\" speed=\"1Gf\"/>\n", i);
  for (int i = 0; i < calibration.workers; ++i)
    text += fmt::format("    <link id=\"processor{}\" bandwidth=\"{:.5g}Bps\" latency=\"{:.4g}s\"/>\n", i,
                        plan.processor, plan.senders_copy ? plan.latency_s / 2 : plan.latency_s);
  if (plan.memory > 0)
    text += fmt::format("    <link id=\"memory\" bandwidth=\"{:.5g}Bps\" latency=\"0s\"/>\n", plan.memory);
  for (int from = 0; from < calibration.workers; ++from)
    for (int to = 0; to < calibration.workers; ++to) {
      text += fmt::format("    <route src=\"worker{}\" dst=\"worker{}\" symmetrical=\"NO\">", from, to);
      if (from != to && plan.senders_copy) text += fmt::format("<link_ctn id=\"processor{}\"/>", from);
      if (from != to && plan.memory > 0) text += "<link_ctn id=\"memory\"/>";
      text += fmt::format("<link_ctn id=\"processor{}\"/></route>\n", to);
    }
  return text + "  </zone>\n</platform>\n";
}

}  // namespace flockstep::bench
