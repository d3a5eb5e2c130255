// What metrics lines and summary.json tell of a step's report, and of how models met.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "telemetry/meetings.h"
#include "telemetry/summary.h"
#include "telemetry/telemetry.h"

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

TEST(Meetings, sharesAreOfTheStepsThatTheyConcern) {
  EXPECT_TRUE(std::isnan(telemetry::MeetingTotals{}.figures().fresh_fraction)) << "of nothing there is none";
  telemetry::MeetingTotals totals;
  totals.add({.fresh = 5, .stale = 2, .alone = 2, .synchronised = 1, .staleness = {6, 0, 2}, .round_s = 4});
  const telemetry::MeetingFigures figures = totals.figures();
  EXPECT_DOUBLE_EQ(figures.fresh_fraction, 0.75);  // alone there is no average to be fresh or stale in
  EXPECT_DOUBLE_EQ(figures.alone_share, 0.2);
  EXPECT_DOUBLE_EQ(figures.mean_staleness, 0.5);
  EXPECT_DOUBLE_EQ(figures.mean_round_s, 0.5);
  EXPECT_EQ(figures.staleness, (std::vector<std::int64_t>{6, 0, 2}));
}

TEST(Meetings, veryOldContributionsShareTheLastPlaceButCountInTheMean) {
  algorithms::MeetingReport report;
  report.staleness.assign(1001, 0);
  report.staleness[0] = report.staleness[63] = report.staleness[100] = report.staleness[1000] = 1;
  telemetry::MeetingTotals totals;
  totals.add(report);
  const telemetry::MeetingFigures figures = totals.figures();
  ASSERT_EQ(figures.staleness.size(), telemetry::MeetingTotals::kAges);
  EXPECT_EQ(figures.staleness.back(), 3);
  EXPECT_DOUBLE_EQ(figures.mean_staleness, (63 + 100 + 1000) / 4.0);
}

// What a run in a process of its own tells must be what it found.
TEST(Meetings, comeThroughJsonAsTheyWere) {
  telemetry::Summary summary;
  EXPECT_TRUE(to_json(summary).at("fresh_fraction").is_null());
  summary.meetings = telemetry::MeetingFigures{0.75, 0.125, std::nan(""), 0.25, {3, 0, 1}};
  const auto json = nlohmann::json::parse(to_json(summary).dump());
  EXPECT_EQ(to_json(telemetry::summary_from_json(json)).dump(), json.dump());
  EXPECT_EQ(json.at("staleness"), (std::vector<std::int64_t>{3, 0, 1}));
  EXPECT_TRUE(std::isnan(telemetry::summary_from_json(json).meetings->mean_staleness));
}

}  // namespace
}  // namespace flockstep::telemetry
