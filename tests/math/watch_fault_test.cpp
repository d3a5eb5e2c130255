#include <functional>

#include "fixture.h"
#include "math/watch.h"

namespace flockstep::math {
namespace {

using Fault = std::function<void(Gradients&)>;

constexpr std::int64_t kSteps = Watch::kSteps;

Gradients healthy(std::size_t workers, std::int64_t step) {
  return drawn({workers, 9, static_cast<std::uint32_t>(step), 100, 0.5});
}

void observe(Watch& watch, std::size_t workers, std::int64_t first, std::int64_t last, const Fault& fault) {
  for (std::int64_t step = first; step < last; ++step) {
    Gradients gradients = healthy(workers, step);
    fault(gradients);
    watch.observe(step, statistics_of(gradients));
  }
}

// Healthy for a while, then broken for long enough.
Watch watched(std::size_t workers, const Fault& fault) {
  Watch watch;
  observe(watch, workers, 0, 50, [](Gradients&) {});
  EXPECT_TRUE(watch.findings().empty());
  observe(watch, workers, 50, 110, fault);
  return watch;
}

void expect_only(const Watch& watch, FindingKind kind, const std::vector<int>& workers, const std::string& words) {
  ASSERT_EQ(watch.findings().size(), 1u);
  const Finding& finding = watch.findings().front();
  EXPECT_EQ(finding.kind, kind);
  EXPECT_EQ(finding.workers, workers);
  EXPECT_GE(finding.first_step, 50 - kSteps);  // windows may begin with healthy steps
  EXPECT_EQ(finding.last_step, 109);
  EXPECT_NE(finding.sentence.find(words), std::string::npos) << finding.sentence;
}

void negate(Vector& gradient) { gradient = oracle::scaled(-1, std::move(gradient)); }

TEST(Watch, aPairThatReadsTheSameDataIsNamed) {
  expect_only(watched(6, [](Gradients& g) { g[5] = g[3]; }), FindingKind::same_gradient, {3, 5},
              "workers 3 and 5 sent the same gradient for 60 steps: are they reading the same data?");
}

TEST(Watch, equalWorkersAreOneFinding) {
  expect_only(watched(6, [](Gradients& g) { g[5] = g[3] = g[1]; }), FindingKind::same_gradient, {1, 3, 5},
              "workers 1, 3 and 5 sent the same gradient");
}

TEST(Watch, twoGroupsAreTwoFindings) {
  const Watch watch = watched(5, [](Gradients& g) { g[4] = g[0], g[2] = g[1]; });
  ASSERT_EQ(watch.findings().size(), 2u);
  EXPECT_EQ(watch.findings()[0].workers, (std::vector<int>{0, 4}));
  EXPECT_EQ(watch.findings()[1].workers, (std::vector<int>{1, 2}));
}

TEST(Watch, aGroupThatGrowsOrShrinksStaysOneFinding) {
  Watch watch = watched(5, [](Gradients& g) { g[4] = g[0], g[2] = g[1]; });
  observe(watch, 5, 110, 150, [](Gradients& g) { g[4] = g[2] = g[1] = g[0]; });
  ASSERT_EQ(watch.findings().size(), 1u);
  EXPECT_EQ(watch.findings()[0].workers, (std::vector<int>{0, 1, 2, 4}));
  EXPECT_EQ(watch.findings()[0].first_step, 50);
  observe(watch, 5, 150, 200, [](Gradients& g) { g[4] = g[0]; });
  EXPECT_EQ(watch.findings().size(), 1u);
  EXPECT_EQ(watch.findings()[0].last_step, 149);
}

TEST(Watch, theSameDirectionAtAnotherSizeIsNotTheSameGradient) {
  EXPECT_TRUE(watched(4, [](Gradients& g) { g[2] = oracle::scaled(1.01, g[1]); }).findings().empty());
}

TEST(Watch, workersThatSendZerosAreNotTheSame) {
  const Watch watch = watched(5, [](Gradients& g) {
    g[1].assign(g[1].size(), 0.0);
    g[4].assign(g[4].size(), 0.0);
  });
  ASSERT_EQ(watch.findings().size(), 2u);
  EXPECT_EQ(watch.findings()[0].kind, FindingKind::zeros);
  EXPECT_EQ(watch.findings()[1].kind, FindingKind::zeros);
}

TEST(Watch, aWorkerThatSendsItsNegativeIsAgainstTheOthers) {
  for (const std::size_t workers : {3u, 4u, 8u, 16u}) {
    SCOPED_TRACE(testing::Message() << "P = " << workers);
    expect_only(watched(workers, [](Gradients& g) { negate(g[2]); }), FindingKind::against, {2},
                "worker 2 points against the others (mean cosine -0.");
  }
}

TEST(Watch, aHugeWorkerCannotMakeTheOthersLookWrong) {
  const Watch watch = watched(5, [](Gradients& g) { g[3] = oracle::scaled(-1000, std::move(g[3])); });
  ASSERT_EQ(watch.findings().size(), 2u);
  for (const Finding& finding : watch.findings()) EXPECT_EQ(finding.workers, (std::vector<int>{3}));
}

TEST(Watch, twoOfEightAgainstTheOthersAreNamed) {
  const Watch watch = watched(8, [](Gradients& g) { negate(g[0]), negate(g[3]); });
  ASSERT_EQ(watch.findings().size(), 2u);
  for (const Finding& finding : watch.findings()) EXPECT_EQ(finding.kind, FindingKind::against);
}

// A mean cosine of 0.15 among the others, as with eight samples a worker.
TEST(Watch, aWrongSignIsFoundWhereTheOthersBarelyAgree) {
  for (const std::size_t workers : {4u, 8u, 16u}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 60; ++step) {
      Gradients gradients = drawn({workers, 9, step, 100, 0.296});
      negate(gradients[1]);
      watch.observe(step, statistics_of(gradients));
    }
    ASSERT_EQ(watch.findings().size(), 1u) << "P = " << workers;
    EXPECT_EQ(watch.findings()[0].workers, (std::vector<int>{1}));
  }
}

TEST(Watch, ofTwoOpposedNobodyIsBlamed) {
  for (const double signal : {0.4, 0.7}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 60; ++step) {
      Gradients gradients = drawn({2, 9, step, 100, signal});
      negate(gradients[1]);
      watch.observe(step, statistics_of(gradients));
    }
    ASSERT_EQ(watch.findings().size(), signal > 0.6 ? 1u : 0u);  // at a cosine of -0.3 data may be the reason
    if (watch.findings().empty()) continue;
    const Finding& finding = watch.findings().front();
    EXPECT_EQ(finding.workers, (std::vector<int>{0, 1}));
    EXPECT_EQ(finding.sentence.find("workers 0 and 1 point against each other (mean cosine -0.8"), 0u);
    EXPECT_NE(finding.sentence.find(": has one the wrong sign?"), std::string::npos) << finding.sentence;
  }
}

TEST(Watch, aWorkerThatSendsZerosIsNamed) {
  for (const std::size_t workers : {2u, 5u}) {
    expect_only(watched(workers, [](Gradients& g) { g[1].assign(g[1].size(), 0.0); }), FindingKind::zeros, {1},
                "worker 1 sends zeros (60 steps in a row)");
  }
}

TEST(Watch, zerosFromAllWorkersAreOneFinding) {
  expect_only(watched(4, [](Gradients& g) { g = Gradients(4, Vector(100)); }), FindingKind::zeros, {0, 1, 2, 3},
              "all 4 workers send zeros (60 steps in a row): the model is not being trained");
  expect_only(watched(1, [](Gradients& g) { g = Gradients(1, Vector(100)); }), FindingKind::zeros, {0},
              "worker 0 sends zeros (60 steps in a row): the model is not being trained");
}

TEST(Watch, zerosFromOneWorkerAndThenFromAllAreRaisedOnceEach) {
  Watch watch;
  std::vector<std::string> raised;
  for (std::int64_t step = 0; step < 120; ++step) {
    Gradients gradients = healthy(3, step);
    for (std::size_t i = 0; i < 3; ++i)
      if (i == 1 || (step >= 40 && step < 80)) gradients[i].assign(100, 0.0);
    for (const Finding& finding : watch.observe(step, statistics_of(gradients))) raised.push_back(finding.sentence);
  }
  EXPECT_EQ(raised,
            (std::vector<std::string>{"worker 1 sends zeros (20 steps in a row)",
                                      "all 3 workers send zeros (20 steps in a row): the model is not being trained",
                                      "worker 1 sends zeros (41 steps in a row)"}));
}

TEST(Watch, aWorkerWithAHugeGradientIsNamed) {
  for (const std::size_t workers : {3u, 4u, 5u, 8u}) {
    const Watch watch = watched(workers, [](Gradients& g) { g[1] = oracle::scaled(40, std::move(g[1])); });
    expect_only(watch, FindingKind::exploding, {1}, "times the median (over 20 steps)");
    EXPECT_NEAR(watch.findings()[0].evidence, 40, 3);
  }
}

// Noise of ten times a gradient's length is now eight times as long as the others, now thirteen times.
TEST(Watch, aNormThatHoversAboutTenIsNamed) {
  for (const std::size_t workers : {2u, 3u, 8u}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 60; ++step) {
      Gradients gradients = drawn({workers, 9, step, 50, 0.5});
      base::Random random(7, base::Purpose::test, 0, step);
      gradients[1] = oracle::scaled(10 * std::exp(0.4 * random.normal()), std::move(gradients[1]));
      watch.observe(step, statistics_of(gradients));
    }
    ASSERT_EQ(watch.findings().size(), 1u) << "P = " << workers;
    EXPECT_EQ(watch.findings()[0].kind, FindingKind::exploding);
    EXPECT_EQ(watch.findings()[0].workers, (std::vector<int>{1}));
    EXPECT_NEAR(watch.findings()[0].evidence, 10, 3);
  }
}

TEST(Watch, ofTwoTheHugeOneIsMeasuredByTheOther) {
  expect_only(watched(2, [](Gradients& g) { g[1] = oracle::scaled(40, std::move(g[1])); }), FindingKind::exploding, {1},
              "times the other one's");
}

TEST(Watch, twoHugeOnesDoNotHideEachOther) {
  for (const std::size_t workers : {4u, 8u}) {
    const Watch watch = watched(workers, [](Gradients& g) {
      g[0] = oracle::scaled(40, std::move(g[0]));
      g[1] = oracle::scaled(50, std::move(g[1]));
    });
    ASSERT_EQ(watch.findings().size(), 2u) << "P = " << workers;
    for (const Finding& finding : watch.findings()) EXPECT_EQ(finding.kind, FindingKind::exploding);
  }
}

TEST(Watch, aWorkerThatOverflowsIsStillWritten) {
  expect_only(watched(3, [](Gradients& g) { g[1] = oracle::scaled(1e20, std::move(g[1])); }), FindingKind::exploding,
              {1}, "worker 1's gradient is over 1,000 times the median");
}

TEST(Watch, numbersThatAreNotFiniteAreRaisedAtOnceAndCounted) {
  Watch watch;
  for (std::int64_t step = 0; step < 30; ++step) {
    Gradients gradients = healthy(3, step);
    if (step % 10 == 4) gradients[1][7] = step == 4 ? kNaN : kInfinity;
    const std::vector<Finding> raised = watch.observe(step, statistics_of(gradients));
    EXPECT_EQ(raised.size(), step == 4 ? 1u : 0u);
    for (const Finding& finding : raised)
      EXPECT_EQ(finding.sentence, "worker 1 sent numbers that are not finite in 1 step");
  }
  ASSERT_EQ(watch.findings().size(), 1u);
  EXPECT_EQ(watch.findings()[0].sentence, "worker 1 sent numbers that are not finite in 3 steps");
  EXPECT_EQ(watch.findings()[0].first_step, 4);
  EXPECT_EQ(watch.findings()[0].last_step, 24);
}

TEST(Watch, onlyWhatHoldsForEnoughStepsOnEndIsRaised) {
  const std::vector<Fault> faults = {[](Gradients& g) { g[2] = g[1]; },
                                     [](Gradients& g) { g[1].assign(g[1].size(), 0.0); }};
  for (const Fault& fault : faults) {
    Watch watch;
    observe(watch, 4, 0, kSteps - 1, fault);
    observe(watch, 4, kSteps - 1, kSteps, [](Gradients&) {});
    observe(watch, 4, kSteps, 2 * kSteps - 1, fault);
    EXPECT_TRUE(watch.findings().empty());
    observe(watch, 4, 2 * kSteps - 1, 2 * kSteps, fault);
    EXPECT_EQ(watch.findings().size(), 1u);
  }
}

TEST(Watch, eachFindingIsRaisedOnce) {
  Watch watch;
  std::size_t raised = 0;
  for (std::int64_t step = 0; step < 100; ++step) {
    Gradients gradients = healthy(4, step);
    gradients[1].assign(gradients[1].size(), 0.0);
    const std::size_t now = watch.observe(step, statistics_of(gradients)).size();
    EXPECT_EQ(now, step == kSteps - 1 ? 1u : 0u);
    raised += now;
  }
  EXPECT_EQ(raised, 1u);
}

TEST(Watch, withRowSumsAloneNormsAreStillLookedAt) {
  Watch watch;
  for (std::int64_t step = 0; step < 40; ++step) {
    Gradients gradients = healthy(6, step);
    gradients[0] = oracle::scaled(30, std::move(gradients[0]));
    gradients[1].assign(gradients[1].size(), 0.0);
    gradients[2][0] = kNaN;
    gradients[4] = gradients[3];
    watch.observe(step, without_matrix(statistics_of(gradients)));
  }
  ASSERT_EQ(watch.findings().size(), 3u);
  EXPECT_EQ(watch.findings()[0].kind, FindingKind::non_finite);
  EXPECT_EQ(watch.findings()[1].kind, FindingKind::zeros);
  EXPECT_EQ(watch.findings()[2].kind, FindingKind::exploding);
}

TEST(Watch, aWorkerWithoutSamplesIsNotLookedAt) {
  Watch watch;
  for (std::int64_t step = 0; step < 60; ++step) {
    Gradients gradients = healthy(4, step);
    gradients[1].assign(gradients[1].size(), kNaN);
    gradients[2].assign(gradients[2].size(), 0.0);
    watch.observe(step, statistics_of(gradients, {1, 0, 0, 1}));
  }
  EXPECT_TRUE(watch.findings().empty());
}

TEST(Watch, anotherNumberOfWorkersStartsTheEvidenceAnew) {
  Watch watch;
  const Fault zeros = [](Gradients& g) { g[1].assign(g[1].size(), 0.0); };
  observe(watch, 4, 0, kSteps - 1, zeros);
  observe(watch, 3, kSteps - 1, 2 * kSteps - 2, zeros);
  EXPECT_TRUE(watch.findings().empty());
}

TEST(Watch, withoutStatisticsSeesNothing) {
  Watch watch;
  EXPECT_TRUE(watch.observe(0, Statistics::none(ones(4))).empty());
}

TEST(WatchDeathTest, stepsOutOfOrderAreAProgrammerError) {
  Watch watch;
  watch.observe(3, Statistics::none(ones(2)));
  EXPECT_DEATH(watch.observe(3, Statistics::none(ones(2))), "steps come in order");
}

}  // namespace
}  // namespace flockstep::math
