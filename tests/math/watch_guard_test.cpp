// Findings about workers that meet the guard, and those that are left out.
#include "fixture.h"
#include "math/guard.h"
#include "math/watch.h"

namespace flockstep::math {
namespace {

Statistics norms_alone(const std::vector<double>& norms) {
  Statistics statistics = Statistics::none(ones(norms.size()));
  for (const double norm : norms) statistics.q.push_back(norm * norm);
  return statistics;
}

// The guard as a sum of parts of these norms has it: measured by the median of the step before.
class Guarded {
 public:
  std::vector<Finding> step(const std::vector<double>& norms, double guard = 3) {
    std::vector<bool> clipped;
    for (const double norm : norms) clipped.push_back(guard_factor(guard, reference_, norm) < 1);
    reference_ = reference_of(norms);
    return watch.observe(step_++, norms_alone(norms), clipped);
  }
  Watch watch;

 private:
  double reference_ = 0;
  std::int64_t step_ = 0;
};

TEST(WatchGuard, whoMeetsItInEveryOtherStepIsNamed) {
  Guarded run;
  std::size_t raised = 0;
  for (int step = 0; step < 100; ++step) raised += run.step({1, 1.2, 0.9, step % 3 == 0 ? 1.0 : 4.0}).size();
  EXPECT_EQ(raised, 1u);
  ASSERT_EQ(run.watch.findings().size(), 1u);
  const Finding& finding = run.watch.findings().front();
  EXPECT_EQ(finding.kind, FindingKind::clipped);
  EXPECT_EQ(finding.workers, (std::vector<int>{3}));
  EXPECT_EQ(finding.sentence,
            "worker 3's gradient met the guard in 27 of the last 40 steps: it is often several times as large as the "
            "median worker's");
  EXPECT_EQ(finding.evidence, 27);
  EXPECT_EQ(finding.first_step, 1);
  EXPECT_EQ(finding.last_step, 98);
}

TEST(WatchGuard, ofTwoWorkersTheLargerOneIsNobodysFault) {
  Guarded run;
  for (int step = 0; step < 60; ++step) run.step({1, 4});
  EXPECT_TRUE(run.watch.findings().empty());
}

TEST(WatchGuard, aHalfOfTheLastFortyStepsIsOften) {
  for (const int often : {19, 20}) {
    Guarded run;
    for (int step = 0; step < 400; ++step) run.step({1, 1, step % 40 < often ? 5.0 : 1.0});
    EXPECT_EQ(run.watch.findings().size(), often == 20 ? 1u : 0u);
  }
}

TEST(WatchGuard, gradientsThatGrowTogetherBlameNobody) {
  Guarded run;  // two losses take turns
  for (int step = 0; step < 200; ++step) run.step(std::vector<double>(4, step % 2 == 0 ? 1.0 : 10.0));
  EXPECT_TRUE(run.watch.findings().empty());
}

TEST(WatchGuard, stepsWithoutSamplesAndWithoutAGuardAreNotCounted) {
  Watch watch;
  Statistics statistics = norms_alone({1, 1, 5});
  for (std::int64_t step = 0; step < 200; ++step) {
    statistics.weights[2] = step % 5 == 0 ? 1 : 0;
    watch.observe(2 * step, statistics, {false, false, true});
    watch.observe(2 * step + 1, statistics);
    EXPECT_EQ(watch.findings().size(), step < 5 * 39 ? 0u : 1u) << step;
  }
}

// Norms that vary by chance, and to which every worker adds a wild step now and then.
TEST(WatchGuard, healthyTrainingRaisesNothing) {
  for (const double spread : {0.1, 0.3, 0.6}) {
    for (const std::size_t workers : {1u, 2u, 3u, 4u, 9u, 32u}) {
      Guarded run;
      base::Random random(11, base::Purpose::test, static_cast<std::uint32_t>(workers));
      for (int step = 0; step < 10000; ++step) {
        std::vector<double> norms;
        for (std::size_t i = 0; i < workers; ++i)
          norms.push_back(std::exp(spread * random.normal()) * (random.below(10) == 0 ? 50 : 1));
        run.step(norms);
      }
      for (const Finding& finding : run.watch.findings())
        ADD_FAILURE() << "spread " << spread << ", P = " << workers << ": " << finding.sentence;
    }
  }
}

TEST(WatchGuard, whoIsLeftOutIsNamedAtOnceAndCounted) {
  Watch watch;
  NonFiniteRuns runs(3, 5);
  const auto observe = [&](std::int64_t step, double norm) {
    const std::vector<bool> finite{true, true, std::isfinite(norm)};
    return watch.observe(step, norms_alone({1, 1, norm}), {}, runs.count(ones(3), finite).left_out);
  };
  std::int64_t step = 0;
  while (step < 10) observe(step++, 1);
  for (; step < 15; ++step)
    for (const Finding& finding : observe(step, kNaN)) EXPECT_EQ(finding.kind, FindingKind::non_finite);
  const auto raised = observe(step++, kNaN);
  ASSERT_EQ(raised.size(), 1u);
  EXPECT_EQ(raised[0].kind, FindingKind::left_out);
  EXPECT_EQ(raised[0].workers, (std::vector<int>{2}));
  EXPECT_EQ(raised[0].sentence,
            "worker 2 has sent numbers that are not finite for 6 steps in a row and is left out until it sends finite "
            "ones");
  while (step < 30) EXPECT_TRUE(observe(step++, kInfinity).empty());
  while (step < 50) EXPECT_TRUE(observe(step++, 1).empty());
  ASSERT_EQ(watch.findings().size(), 2u);
  EXPECT_EQ(watch.findings()[1].evidence, 20);
  EXPECT_EQ(watch.findings()[1].first_step, 10);
  EXPECT_EQ(watch.findings()[1].last_step, 29);
}

TEST(WatchGuard, whoStaysInThoughItIsNotFiniteIsNamedAfterThePatience) {
  Watch watch;
  NonFiniteRuns runs(2, 5);
  std::vector<std::string> raised;
  for (std::int64_t step = 0; step < 30; ++step) {
    const NonFiniteRuns::Verdict verdict = runs.count(ones(2), {true, step < 10});
    for (const Finding& finding :
         watch.observe(step, norms_alone({1, step < 10 ? 1 : kNaN}), {}, verdict.left_out, verdict.stuck))
      raised.push_back(finding.sentence);
  }
  EXPECT_EQ(raised,
            (std::vector<std::string>{
                "worker 1 sent numbers that are not finite in 1 step",
                "worker 1 (1 of 2) sent numbers that are not finite for 5 steps in a row. Fewer than half of "
                "the workers are ever left out, so with non_finite = propagate no worker has taken these steps"}));
  ASSERT_EQ(watch.findings().size(), 2u);
  EXPECT_EQ(watch.findings()[1].kind, FindingKind::stuck);
  EXPECT_EQ(watch.findings()[1].workers, (std::vector<int>{1}));
  EXPECT_EQ(watch.findings()[1].evidence, 20);
}

TEST(WatchGuard, whatOverflowsOnAllWorkersNamesNoneAndIsAFindingWhereItLasts) {
  Watch watch;
  for (std::int64_t step = 0; step < 60; ++step)  // a scaler backs off
    EXPECT_TRUE(watch.observe(step, norms_alone(step % 20 < 15 ? std::vector{kNaN, kInfinity} : std::vector{1.0, 2.0}))
                    .empty());
  std::vector<Finding> raised;
  for (std::int64_t step = 60; step < 100; ++step)
    for (const Finding& finding : watch.observe(step, norms_alone({kNaN, kNaN}))) raised.push_back(finding);
  ASSERT_EQ(raised.size(), 1u);
  EXPECT_EQ(raised[0].workers, (std::vector<int>{0, 1}));
  EXPECT_EQ(raised[0].sentence,
            "all 2 workers send numbers that are not finite (20 steps in a row): the model is not being trained");
}

TEST(WatchGuard, workersThatStayInTogetherAreOneFinding) {
  Watch watch;
  NonFiniteRuns runs(4, 3);
  for (std::int64_t step = 0; step < 12; ++step) {
    const NonFiniteRuns::Verdict verdict = runs.count(ones(4), {true, false, true, step < 6});
    watch.observe(step, norms_alone({1, kNaN, 1, step < 6 ? 1 : kInfinity}), {}, verdict.left_out, verdict.stuck);
  }
  ASSERT_EQ(watch.findings().size(), 4u);  // each on its own, worker 1 left out, and both
  EXPECT_EQ(watch.findings()[3].workers, (std::vector<int>{1, 3}));
  EXPECT_EQ(watch.findings()[3].sentence.find("workers 1 and 3 (2 of 4) sent numbers that are not finite for 6 steps"),
            0u);
}

// Whoever leaves it out may tell of its numbers as zeros.
TEST(WatchGuard, whoIsLeftOutDoesNotSendZeros) {
  Watch watch;
  for (std::int64_t step = 0; step < 60; ++step) watch.observe(step, norms_alone({1, 0, 1}), {}, {false, true, false});
  ASSERT_EQ(watch.findings().size(), 2u);
  EXPECT_EQ(watch.findings()[0].kind, FindingKind::non_finite);
  EXPECT_EQ(watch.findings()[1].kind, FindingKind::left_out);
  EXPECT_EQ(watch.findings()[1].evidence, 60);
}

TEST(WatchGuard, withNormsAloneTheseAreStillLookedAt) {
  Watch watch;
  for (std::int64_t step = 0; step < 100; ++step)
    watch.observe(step, norms_alone({1, step < 50 ? 1.0 : 0.0, step < 50 ? 1.0 : 40.0, 1}));
  ASSERT_EQ(watch.findings().size(), 2u);
  EXPECT_EQ(watch.findings()[0].kind, FindingKind::exploding);
  EXPECT_EQ(watch.findings()[1].kind, FindingKind::zeros);
}

}  // namespace
}  // namespace flockstep::math
