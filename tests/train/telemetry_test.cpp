// What metrics lines and summary.json tell of a step's report.
#include "telemetry/telemetry.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "telemetry/summary.h"

namespace flockstep::telemetry {
namespace {

using nlohmann::json;

json line_after(const algorithms::GradientReport& report) {
  Telemetry telemetry;
  telemetry.observe(1, report, report.event, {});
  json line = json::object();
  telemetry.describe(1, line);
  EXPECT_FALSE(telemetry.cosines(1)) << "there is no matrix";
  return line;
}

TEST(Telemetry, withNormsAloneTheseAreTold) {
  algorithms::GradientReport report;
  report.statistics = {.K = {}, .d = {}, .q = {4, 9}, .weights = {1, 1}};
  EXPECT_EQ(line_after(report), (json{{"norms", {2, 3}}}));
}

TEST(Telemetry, namesTheWorkersThatMetTheGuardWhereAnyHave) {
  algorithms::GradientReport report;
  report.clipped = {false, false, false};
  EXPECT_FALSE(report.any_clipped());
  EXPECT_FALSE(line_after(report).contains("clipped"));
  report.clipped = {false, true, true};
  EXPECT_TRUE(report.any_clipped());
  EXPECT_EQ(line_after(report)["clipped"], (json{1, 2}));
}

TEST(Telemetry, findingsOfEveryKindComeThroughJson) {
  std::vector<math::Finding> findings;
  for (const math::FindingKind kind : math::kFindingKinds) findings.push_back({kind, {2}, 1, 9, 0.5, "a sentence"});
  const auto read = findings_from_json(json::parse(findings_json(findings).dump()));
  ASSERT_EQ(read.size(), findings.size());
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i].kind, findings[i].kind);
}

TEST(Telemetry, guardsComeThroughJsonAndOlderFilesHaveFewer) {
  Summary summary;
  summary.guards = {.non_finite = 1, .all_zero = 2, .unsafe = 3, .clipped = 4};
  json written = json::parse(to_json(summary).dump());
  EXPECT_EQ(written["guards"]["clipped"], 4);
  EXPECT_EQ(summary_from_json(written).guards.clipped, 4);
  written["guards"].erase("clipped");
  EXPECT_EQ(summary_from_json(written).guards.clipped, 0);
  EXPECT_EQ(summary_from_json(written).guards.unsafe, 3);
}

}  // namespace
}  // namespace flockstep::telemetry
