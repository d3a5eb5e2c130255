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

TEST(WatchGuard, whoMeetsItInHalfOfTheLastFortyStepsIsNamed) {
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
  for (const int often : {19, 20}) {
    Guarded other;
    for (int step = 0; step < 400; ++step) other.step({1, 1, step % 40 < often ? 5.0 : 1.0});
    EXPECT_EQ(other.watch.findings().size(), often == 20 ? 1u : 0u);
  }
}

TEST(WatchGuard, theLargerOneOfTwoAndGradientsThatGrowTogetherAreNoWorkersFault) {
  Guarded of_two, together;
  for (int step = 0; step < 200; ++step) {
    of_two.step({1, 4});
    together.step(std::vector<double>(4, step % 2 == 0 ? 1.0 : 10.0));  // two losses take turns
  }
  EXPECT_TRUE(of_two.watch.findings().empty());
  EXPECT_TRUE(together.watch.findings().empty());
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

// A watch over steps of these norms, and what it has raised.
struct Patient {
  Watch watch = {};
  NonFiniteRuns runs;
  std::vector<std::string> raised = {};

  Patient(std::size_t workers, std::int64_t patience) : runs(workers, patience) {}
  void take(std::int64_t first, std::int64_t last, const std::vector<double>& norms) {
    for (std::int64_t step = first; step < last; ++step) {
      std::vector<bool> finite;
      for (const double norm : norms) finite.push_back(std::isfinite(norm));
      const NonFiniteRuns::Verdict verdict = runs.count(ones(norms.size()), finite);
      for (const Finding& finding : watch.observe(step, norms_alone(norms), {}, verdict.left_out, verdict.stuck))
        raised.push_back(finding.sentence);
    }
  }
  void expect_last(FindingKind kind, const std::vector<int>& workers, double evidence, std::int64_t first_step,
                   std::int64_t last_step) const {
    const Finding& finding = watch.findings().back();
    EXPECT_EQ(finding.kind, kind);
    EXPECT_EQ(finding.workers, workers);
    EXPECT_EQ(finding.evidence, evidence);
    EXPECT_EQ(finding.first_step, first_step);
    EXPECT_EQ(finding.last_step, last_step);
  }
};

using Sentences = std::vector<std::string>;

TEST(WatchGuard, whoIsLeftOutIsNamedAtOnceAndCounted) {
  Patient run(3, 5);
  run.take(0, 10, {1, 1, 1});
  run.take(10, 15, {1, 1, kNaN});
  EXPECT_EQ(run.raised, Sentences{"worker 2 sent numbers that are not finite in 1 step"});
  run.take(15, 16, {1, 1, kNaN});
  run.take(16, 30, {1, 1, kInfinity});
  run.take(30, 50, {1, 1, 1});
  EXPECT_EQ(run.raised.at(1),
            "worker 2 has sent numbers that are not finite for 6 steps in a row and is left out until it sends finite "
            "ones");
  EXPECT_EQ(run.raised.size(), 2u);
  EXPECT_EQ(run.watch.findings().size(), 2u);
  run.expect_last(FindingKind::left_out, {2}, 20, 10, 29);
}

TEST(WatchGuard, whoStaysInThoughItIsNotFiniteIsNamedAfterThePatience) {
  Patient run(2, 5);
  run.take(0, 10, {1, 1});
  run.take(10, 30, {1, kNaN});
  EXPECT_EQ(run.raised,
            (Sentences{"worker 1 sent numbers that are not finite in 1 step",
                       "worker 1 (1 of 2) sent numbers that are not finite for 5 steps in a row. Fewer than half of "
                       "the workers are ever left out, so with non_finite = propagate no worker has taken these "
                       "steps"}));
  run.expect_last(FindingKind::stuck, {1}, 20, 10, 29);
}

TEST(WatchGuard, whatOverflowsOnAllWorkersNamesNoneAndIsAFindingWhereItLasts) {
  Patient run(2, 0);
  for (std::int64_t step = 0; step < 60; step += 20) {  // a scaler backs off
    run.take(step, step + 15, {kNaN, kInfinity});
    run.take(step + 15, step + 20, {1, 2});
  }
  EXPECT_EQ(run.raised, Sentences{});
  run.take(60, 100, {kNaN, kNaN});
  EXPECT_EQ(run.raised, Sentences{"all 2 workers send numbers that are not finite (20 steps in a row): the model is "
                                  "not being trained"});
  run.expect_last(FindingKind::stuck, {0, 1}, 40, 60, 99);
}

TEST(WatchGuard, workersThatStayInTogetherAreOneFinding) {
  Patient run(4, 3);
  run.take(0, 6, {1, kNaN, 1, 1});
  run.take(6, 12, {1, kNaN, 1, kInfinity});
  EXPECT_EQ(run.watch.findings().size(), 4u);  // each on its own, worker 1 left out, and both
  run.expect_last(FindingKind::stuck, {1, 3}, 6, 6, 11);
  EXPECT_EQ(run.watch.findings().back().sentence.find("workers 1 and 3 (2 of 4) sent numbers"), 0u);
}

// A transport that leaves a worker out may tell of its numbers as zeros.
TEST(WatchGuard, whoIsLeftOutDoesNotSendZeros) {
  Watch watch;
  for (std::int64_t step = 0; step < 60; ++step) watch.observe(step, norms_alone({1, 0, 1}), {}, {false, true, false});
  ASSERT_EQ(watch.findings().size(), 2u);
  EXPECT_EQ(watch.findings()[0].kind, FindingKind::non_finite);
  EXPECT_EQ(watch.findings()[1].kind, FindingKind::left_out);
  EXPECT_EQ(watch.findings()[1].evidence, 60);
}

}  // namespace
}  // namespace flockstep::math
