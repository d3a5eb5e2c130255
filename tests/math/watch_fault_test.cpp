#include <functional>
#include <optional>

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

struct Named {
  FindingKind kind;
  std::vector<int> workers;
  std::string words = "";
  std::optional<double> evidence = {};
};

void expect_findings(const Watch& watch, const std::vector<Named>& expected) {
  ASSERT_EQ(watch.findings().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Finding& finding = watch.findings()[i];
    EXPECT_EQ(finding.kind, expected[i].kind) << finding.sentence;
    EXPECT_EQ(finding.workers, expected[i].workers) << finding.sentence;
    EXPECT_NE(finding.sentence.find(expected[i].words), std::string::npos) << finding.sentence;
    if (expected[i].evidence) {
      EXPECT_NEAR(finding.evidence, *expected[i].evidence, 3) << finding.sentence;
    }
  }
}

Fault factor_of(std::size_t worker, double factor) {
  return [=](Gradients& g) { g = times(factor, worker, std::move(g)); };
}

void expect_named(const std::string& name, const std::vector<std::size_t>& fleets, const Fault& fault,
                  const std::vector<Named>& findings) {
  for (const std::size_t workers : fleets) {
    SCOPED_TRACE(testing::Message() << name << ", P = " << workers);
    const Watch watch = watched(workers, fault);
    expect_findings(watch, findings);
    for (const Finding& finding : watch.findings()) {
      EXPECT_GE(finding.first_step, 50 - kSteps);  // windows may begin with healthy steps
      EXPECT_EQ(finding.last_step, 109);
    }
  }
}

TEST(Watch, equalGradientsAreNamedTogether) {
  constexpr auto kSame = FindingKind::same_gradient;
  expect_named(
      "a pair", {6}, [](Gradients& g) { g[5] = g[3]; },
      {{kSame, {3, 5}, "workers 3 and 5 sent the same gradient for 60 steps: are they reading the same data?"}});
  expect_named("three", {6}, [](Gradients& g) { g[5] = g[3] = g[1]; },
               {{kSame, {1, 3, 5}, "workers 1, 3 and 5 sent the same gradient"}});
  expect_named("two pairs", {5}, [](Gradients& g) { g[4] = g[0], g[2] = g[1]; }, {{kSame, {0, 4}}, {kSame, {1, 2}}});
  expect_named("another size", {4}, [](Gradients& g) { g[2] = oracle::scaled(1.01, g[1]); }, {});
}

TEST(Watch, zerosAreNamed) {
  constexpr auto kZeros = FindingKind::zeros;
  expect_named("one", {2, 5}, factor_of(1, 0), {{kZeros, {1}, "worker 1 sends zeros (60 steps in a row)"}});
  expect_named("two are not the same", {5}, [](Gradients& g) { g = times(0, 1, times(0, 4, g)); },
               {{kZeros, {1}}, {kZeros, {4}}});
  const std::string words = " (60 steps in a row): the model is not being trained";
  expect_named("all", {4}, [](Gradients& g) { g = Gradients(4, Vector(100)); },
               {{kZeros, {0, 1, 2, 3}, "all 4 workers send zeros" + words}});
  expect_named("the only one", {1}, factor_of(0, 0), {{kZeros, {0}, "worker 0 sends zeros" + words}});
}

TEST(Watch, wrongSignsAndHugeGradientsAreNamed) {
  constexpr auto kAgainst = FindingKind::against, kExploding = FindingKind::exploding;
  expect_named("a wrong sign", {3, 4, 8, 16}, factor_of(2, -1),
               {{kAgainst, {2}, "worker 2 points against the others (mean cosine -0."}});
  expect_named("two wrong signs", {8}, [](Gradients& g) { g = times(-1, 0, times(-1, 3, g)); },
               {{kAgainst, {0}}, {kAgainst, {3}}});
  expect_named("a huge worker cannot make the others look wrong", {5}, factor_of(3, -1000),
               {{kExploding, {3}}, {kAgainst, {3}}});
  expect_named("a huge worker", {3, 4, 5, 8}, factor_of(1, 40),
               {{kExploding, {1}, "times the median (over 20 steps)", 40}});
  expect_named("of two the other is the measure", {2}, factor_of(1, 40), {{kExploding, {1}, "times the other one's"}});
  expect_named("two do not hide each other", {4, 8}, [](Gradients& g) { g = times(40, 0, times(50, 1, g)); },
               {{kExploding, {0}}, {kExploding, {1}}});
  expect_named("an overflow is still written", {3}, factor_of(1, 1e20),
               {{kExploding, {1}, "worker 1's gradient is over 1,000 times the median"}});
}

TEST(Watch, aGroupThatGrowsOrShrinksStaysOneFinding) {
  Watch watch = watched(5, [](Gradients& g) { g[4] = g[0], g[2] = g[1]; });
  observe(watch, 5, 110, 150, [](Gradients& g) { g[4] = g[2] = g[1] = g[0]; });
  expect_findings(watch, {{FindingKind::same_gradient, {0, 1, 2, 4}}});
  EXPECT_EQ(watch.findings()[0].first_step, 50);
  observe(watch, 5, 150, 200, [](Gradients& g) { g[4] = g[0]; });
  EXPECT_EQ(watch.findings().size(), 1u);
  EXPECT_EQ(watch.findings()[0].last_step, 149);
}

// The first sixty steps of workers with this much in common.
Watch from_the_start(const Draw& draw, const std::function<double(std::uint32_t step)>& factor_of_worker_1) {
  Watch watch;
  for (std::uint32_t step = 0; step < 60; ++step) {
    Draw now = draw;
    now.step = step;
    watch.observe(step, statistics_of(times(factor_of_worker_1(step), 1, drawn(now))));
  }
  return watch;
}

TEST(Watch, aWrongSignIsFoundWhereTheOthersBarelyAgree) {
  // A mean cosine of 0.15 among the others, as with eight samples a worker.
  for (const std::size_t workers : {4u, 8u, 16u})
    expect_findings(from_the_start({workers, 9, 0, 100, 0.296}, [](std::uint32_t) { return -1; }),
                    {{FindingKind::against, {1}}});
}

TEST(Watch, ofTwoOpposedNobodyIsBlamed) {
  const auto opposed = [](double signal) {
    return from_the_start({2, 9, 0, 100, signal}, [](std::uint32_t) { return -1; });
  };
  expect_findings(opposed(0.4), {});  // at a cosine of -0.3 data may be the reason
  expect_findings(opposed(0.7),
                  {{FindingKind::against, {0, 1}, "workers 0 and 1 point against each other (mean cosine -0.8"}});
  expect_findings(opposed(0.7), {{FindingKind::against, {0, 1}, ": has one the wrong sign?"}});
}

// Noise of ten times a gradient's length is now eight times as long as the others, now thirteen times.
TEST(Watch, aNormThatHoversAboutTenIsNamed) {
  for (const std::size_t workers : {2u, 3u, 8u})
    expect_findings(from_the_start({workers, 9, 0, 50, 0.5},
                                   [](std::uint32_t step) {
                                     base::Random random(7, base::Purpose::test, 0, step);
                                     return 10 * std::exp(0.4 * random.normal());
                                   }),
                    {{FindingKind::exploding, {1}, "", 10}});
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
  expect_findings(watch, {{FindingKind::non_finite, {1}, "worker 1 sent numbers that are not finite in 3 steps"}});
  EXPECT_EQ(watch.findings()[0].first_step, 4);
  EXPECT_EQ(watch.findings()[0].last_step, 24);
}

TEST(Watch, onlyWhatHoldsForEnoughStepsOnEndIsRaised) {
  for (const Fault& fault : {Fault([](Gradients& g) { g[2] = g[1]; }), factor_of(1, 0)}) {
    Watch watch;
    observe(watch, 4, 0, kSteps - 1, fault);
    observe(watch, 4, kSteps - 1, kSteps, [](Gradients&) {});
    observe(watch, 4, kSteps, 2 * kSteps - 1, fault);
    EXPECT_TRUE(watch.findings().empty());
    observe(watch, 4, 2 * kSteps - 1, 2 * kSteps, fault);
    EXPECT_EQ(watch.findings().size(), 1u);
  }
  Watch watch;  // another number of workers starts the evidence anew
  observe(watch, 4, 0, kSteps - 1, factor_of(1, 0));
  observe(watch, 3, kSteps - 1, 2 * kSteps - 2, factor_of(1, 0));
  EXPECT_TRUE(watch.findings().empty());
}

TEST(Watch, withoutTheMatrixNormsAreStillLookedAt) {
  for (const bool has_row_sums : {true, false}) {
    Watch watch;
    for (std::int64_t step = 0; step < 40; ++step) {
      Gradients gradients = times(30, 0, times(0, 1, healthy(6, step)));
      gradients[2][0] = kNaN;
      gradients[4] = gradients[3];
      Statistics statistics = without_matrix(statistics_of(gradients));
      if (!has_row_sums) statistics.d.clear();
      watch.observe(step, statistics);
    }
    expect_findings(watch, {{FindingKind::non_finite, {2}}, {FindingKind::zeros, {1}}, {FindingKind::exploding, {0}}});
  }
}

TEST(Watch, aWorkerWithoutSamplesIsNotLookedAt) {
  Watch watch;
  for (std::int64_t step = 0; step < 60; ++step)
    watch.observe(step, statistics_of(times(kNaN, 1, times(0, 2, healthy(4, step))), {1, 0, 0, 1}));
  EXPECT_TRUE(watch.findings().empty());
  EXPECT_TRUE(watch.observe(60, Statistics::none(ones(4))).empty()) << "nothing is known of this step";
}

TEST(WatchDeathTest, stepsOutOfOrderAreAProgrammerError) {
  Watch watch;
  watch.observe(3, Statistics::none(ones(2)));
  EXPECT_DEATH(watch.observe(3, Statistics::none(ones(2))), "steps come in order");
}

}  // namespace
}  // namespace flockstep::math
