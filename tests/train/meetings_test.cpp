#include "telemetry/meetings.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "telemetry/summary.h"

namespace flockstep::train {
namespace {

TEST(Meetings, sharesAreOfTheStepsThatTheyConcern) {
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

TEST(Meetings, ofNothingThereIsNoShare) {
  const telemetry::MeetingFigures figures = telemetry::MeetingTotals{}.figures();
  EXPECT_TRUE(std::isnan(figures.fresh_fraction));
  EXPECT_TRUE(std::isnan(figures.mean_round_s));
  EXPECT_TRUE(figures.staleness.empty());
}

// What a run in a process of its own tells must be what it found.
TEST(Meetings, comeThroughJsonAsTheyWere) {
  telemetry::Summary summary;
  const auto again = [&] {
    return telemetry::summary_from_json(nlohmann::json::parse(to_json(summary).dump())).meetings;
  };
  EXPECT_FALSE(again());
  EXPECT_TRUE(to_json(summary).at("fresh_fraction").is_null());
  summary.meetings = telemetry::MeetingFigures{0.75, 0.125, std::nan(""), 0.25, {3, 0, 1}};
  const auto same = again();
  ASSERT_TRUE(same);
  EXPECT_EQ(same->fresh_fraction, 0.75);
  EXPECT_EQ(same->alone_share, 0.125);
  EXPECT_TRUE(std::isnan(same->mean_staleness));
  EXPECT_EQ(same->mean_round_s, 0.25);
  EXPECT_EQ(same->staleness, (std::vector<std::int64_t>{3, 0, 1}));
}

}  // namespace
}  // namespace flockstep::train
