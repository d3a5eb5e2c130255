#include <algorithm>

#include "fixture.h"
#include "math/guard.h"

namespace flockstep::math {
namespace {

constexpr AggregateOptions kExclude{.non_finite = NonFinite::exclude};

// Empty on a first step, or what the rule remembers after three.
std::vector<double> memory_after(const Rule& rule, std::size_t workers, std::uint32_t steps) {
  std::vector<double> memory;
  for (std::uint32_t step = 0; step < steps; ++step)
    memory = decide(rule, {}, statistics_of(drawn({workers, 5, step})), memory).memory;
  return memory;
}

Gradients without(Gradients gradients, std::size_t worker) {
  gradients.erase(gradients.begin() + static_cast<std::ptrdiff_t>(worker));
  return gradients;
}

bool are_zero(const std::vector<double>& c) {
  return std::all_of(c.begin(), c.end(), [](double value) { return value == 0; });
}

TEST(Guard, aHealthyStepIsTheRulesOwn) {
  for (const NamedRule& named : every_rule()) {
    SCOPED_TRACE(named.name);
    const Statistics statistics = statistics_of(drawn({5}));
    const std::vector<double> memory = memory_after(named.rule, 5, 3);
    const Decision decision = decide(named.rule, {}, statistics, memory);
    const auto outcome = named.rule.apply(statistics, memory);
    EXPECT_EQ(decision.event, Event::none);
    EXPECT_EQ(decision.c, outcome->c);
    EXPECT_EQ(decision.memory, outcome->memory);
    EXPECT_FALSE(decision.norm);
    EXPECT_FALSE(decision.propagates);
  }
}

TEST(Guard, aNumberThatIsNotFinitePropagatesAndIsForgotten) {
  for (const NamedRule& named : every_rule()) {
    for (const std::uint32_t steps_before : {0u, 3u}) {
      for (const double bad : {kNaN, kInfinity, -kInfinity}) {
        SCOPED_TRACE(testing::Message() << named.name << " after " << steps_before << " steps, " << bad);
        Gradients gradients = drawn({4});
        gradients[2][1] = bad;
        const std::vector<double> memory = memory_after(named.rule, 4, steps_before);
        const Decision decision = decide(named.rule, {}, statistics_of(gradients), memory);
        EXPECT_EQ(decision.event, Event::non_finite);
        EXPECT_TRUE(decision.propagates);
        EXPECT_EQ(decision.memory, memory);
        for (const double value : combined(decision.c, gradients)) EXPECT_FALSE(std::isfinite(value));
      }
    }
  }
}

TEST(Guard, anExcludedWorkerIsAsIfItHadNeverBeen) {
  for (const NamedRule& named : every_rule()) {
    for (const std::size_t broken : {0u, 2u, 4u}) {
      SCOPED_TRACE(testing::Message() << named.name << " without worker " << broken);
      Gradients gradients = drawn({5});
      gradients[broken][0] = kNaN;
      const Decision decision = decide(named.rule, kExclude, statistics_of(gradients), {});
      EXPECT_EQ(decision.event, Event::non_finite);
      EXPECT_FALSE(decision.propagates);
      EXPECT_TRUE(decision.memory.empty());
      EXPECT_EQ(decision.c[broken], 0);
      std::vector<double> c = decision.c;
      c.erase(c.begin() + static_cast<std::ptrdiff_t>(broken));
      EXPECT_EQ(c, named.rule.apply(statistics_of(without(gradients, broken)), {})->c);
    }
  }
}

TEST(Guard, excludingFitsTheMemoryByPositionAndKeepsTheWholeOne) {
  Gradients gradients = drawn({4});
  gradients[1][0] = kNaN;
  const std::vector<double> memory = {0.3, 0.5, 0.9, 1.7};
  const Decision decision = decide(adacons(), kExclude, statistics_of(gradients), memory);
  EXPECT_EQ(decision.memory, memory);
  const auto expected = adacons().apply(statistics_of(without(gradients, 1)), resample(memory, Belonging::position, 3));
  EXPECT_EQ(decision.c, (std::vector<double>{expected->c[0], 0, expected->c[1], expected->c[2]}));
}

TEST(Guard, excludingFitsTheMemoryByWorkerAndKeepsTheWholeOne) {
  Gradients gradients = drawn({4});
  gradients[1][0] = kNaN;
  const std::vector<double> memory = {0.3, 0.5, 0.9, 0.1};
  const Decision decision = decide(direction_consensus(), kExclude, statistics_of(gradients), memory);
  EXPECT_EQ(decision.memory, memory);
  const auto expected = direction_consensus().apply(statistics_of(without(gradients, 1)), {0.3, 0.9, 0.1});
  EXPECT_EQ(decision.c, (std::vector<double>{expected->c[0], 0, expected->c[1], expected->c[2]}));
}

TEST(Guard, excludingWithRowSumsUsesTheSumsOfTheFinite) {
  Gradients gradients = drawn({4});
  const Statistics finite = statistics_of(without(gradients, 1));
  const Statistics statistics = Statistics::of_row_sums({finite.d[0], kNaN, finite.d[1], finite.d[2]},
                                                        {finite.q[0], kNaN, finite.q[1], finite.q[2]}, ones(4));
  gradients[1][0] = kNaN;
  EXPECT_EQ(decide(adacons(), kExclude, statistics, {}).c, decide(adacons(), kExclude, statistics_of(gradients), {}).c);
  EXPECT_EQ(living_workers(statistics), (std::vector<std::size_t>{0, 2, 3}));
}

TEST(Guard, withNobodyLeftItPropagates) {
  for (const NamedRule& named : every_rule()) {
    SCOPED_TRACE(named.name);
    const std::vector<double> memory = memory_after(named.rule, 3, 2);
    const Decision decision = decide(named.rule, kExclude, statistics_of(Gradients(3, Vector(4, kNaN))), memory);
    EXPECT_EQ(decision.event, Event::non_finite);
    EXPECT_TRUE(decision.propagates);
    EXPECT_EQ(decision.memory, memory);
  }
}

TEST(Guard, zerosEverywhereGiveZero) {
  for (const NamedRule& named : every_rule()) {
    for (const std::uint32_t steps_before : {0u, 3u}) {
      for (const Magnitude magnitude :
           {Magnitude::own, Magnitude::mean_norm, Magnitude::median_norm, Magnitude::matched}) {
        if (magnitude == Magnitude::matched && named.name == "adasum") continue;
        SCOPED_TRACE(testing::Message() << named.name << " after " << steps_before << " steps");
        const std::vector<double> memory = memory_after(named.rule, 3, steps_before);
        const Decision decision =
            decide(named.rule, {.magnitude = magnitude}, statistics_of(Gradients(3, Vector(4))), memory);
        EXPECT_EQ(decision.event, Event::all_zero);
        EXPECT_TRUE(are_zero(decision.c));
        EXPECT_EQ(decision.memory, memory);
        EXPECT_FALSE(decision.norm);
      }
    }
  }
}

TEST(Guard, zerosFromOneWorkerAreNoEvent) {
  for (const NamedRule& named : every_rule()) {
    SCOPED_TRACE(named.name);
    Gradients gradients = drawn({4});
    gradients[1].assign(gradients[1].size(), 0.0);
    const Decision decision = decide(named.rule, {}, statistics_of(gradients), {});
    EXPECT_EQ(decision.event, Event::none);
    for (const double value : combined(decision.c, gradients)) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Guard, withoutASafeNormalisationItIsTheNormalizedMean) {
  const Gradients gradients = drawn({3});
  const std::vector<double> memory = {-30, -20, -10};
  for (const Negative negative : {Negative::keep, Negative::clip}) {
    const Decision decision = decide(adacons({.negative = negative}), {}, statistics_of(gradients), memory);
    EXPECT_EQ(decision.event, Event::unsafe);
    EXPECT_EQ(decision.memory, memory);
    expect_near(combined(decision.c, gradients), oracle::normalized_mean(gradients, kEps), 1e-9);
  }
}

TEST(Guard, onTheFirstStepThereIsStillNoMemory) {
  const Gradients opposed = {{1, 2}, {-1, -2}};
  for (const Rule& rule : {adacons(), direction_consensus()}) {
    const Decision decision = decide(rule, {}, statistics_of(opposed), {});
    EXPECT_EQ(decision.event, Event::unsafe);
    EXPECT_TRUE(decision.memory.empty());
  }
}

TEST(Guard, directionsThatAgreeWithNobodyAreUnsafe) {
  const Gradients gradients = drawn({3});
  const Decision decision = decide(direction_consensus(), {}, statistics_of(gradients), {-1, -1, -1});
  EXPECT_EQ(decision.event, Event::unsafe);
  EXPECT_EQ(decision.memory, (std::vector<double>{-1, -1, -1}));
  expect_near(combined(decision.c, gradients), oracle::normalized_mean(gradients, kEps), 1e-9);
}

TEST(Guard, sumsThatOverflowedAreUnsafe) {
  const Statistics statistics = Statistics::of_row_sums({kInfinity, 1, kNaN}, {1e38, 1, 1e38}, ones(3));
  const Decision decision = decide(adacons(), {.magnitude = Magnitude::mean_norm}, statistics, {});
  EXPECT_EQ(decision.event, Event::unsafe);
  EXPECT_FALSE(decision.norm);
  for (const double c : decision.c) EXPECT_TRUE(std::isfinite(c));
}

TEST(Guard, withoutStatisticsNothingIsSeenAndTheRuleStands) {
  const Decision plain = decide(mean(), {}, Statistics::none(ones(4)), {});
  EXPECT_EQ(plain.event, Event::none);
  EXPECT_EQ(plain.c, std::vector<double>(4, 0.25));
  EXPECT_EQ(decide(weighted_mean(), {}, Statistics::none({1, 3}), {}).c, (std::vector<double>{0.25, 0.75}));
}

TEST(Guard, aWorkerWithoutSamplesMaySendAnything) {
  Gradients gradients = drawn({3});
  gradients[1].assign(gradients[1].size(), kNaN);
  for (const NonFinite non_finite : {NonFinite::propagate, NonFinite::exclude}) {
    const Decision decision =
        decide(weighted_mean(), {.non_finite = non_finite}, statistics_of(gradients, {1, 0, 3}), {});
    EXPECT_EQ(decision.event, Event::none);
    EXPECT_EQ(decision.c, (std::vector<double>{0.25, 0, 0.75}));
  }
  EXPECT_EQ(decide(weighted_mean(), {}, Statistics::none({1, 0, 3}), {}).c, (std::vector<double>{0.25, 0, 0.75}));
  EXPECT_EQ(decide(mean(), {}, statistics_of(gradients, {1, 0, 3}), {}).c, (std::vector<double>{0.5, 0, 0.5}))
      << "other weights mean nothing to this rule";
}

TEST(Guard, aWorkerWithoutSamplesIsLeftOutUnderEveryRuleAndMemoryGoesOnWithoutIt) {
  for (const NamedRule& named : every_rule())
    for (const std::uint32_t steps_before : {0u, 3u})
      for (const Magnitude magnitude :
           {Magnitude::own, Magnitude::mean_norm, Magnitude::median_norm, Magnitude::matched}) {
        if (magnitude == Magnitude::matched && named.name == "adasum") continue;
        SCOPED_TRACE(testing::Message() << named.name << " after " << steps_before << " steps");
        const AggregateOptions options{.magnitude = magnitude};
        const Gradients gradients = drawn({4});
        const std::vector<double> memory = memory_after(named.rule, 4, steps_before);
        const std::vector<double> of_others = named.rule.belonging == Belonging::worker && !memory.empty()
                                                  ? std::vector{memory[0], memory[2], memory[3]}
                                                  : resample(memory, named.rule.belonging, 3);
        const Decision decision = decide(named.rule, options, statistics_of(gradients, {1, 0, 1, 1}), memory);
        const Decision others = decide(named.rule, options, statistics_of(without(gradients, 1)), of_others);
        EXPECT_EQ(decision.event, Event::none);
        EXPECT_EQ(decision.c, (std::vector<double>{others.c[0], 0, others.c[1], others.c[2]}));
        EXPECT_EQ(decision.norm, others.norm);
        if (others.memory.empty()) {
          EXPECT_TRUE(decision.memory.empty());
        } else if (named.rule.belonging == Belonging::worker) {
          const double first = (others.memory[0] + others.memory[1] + others.memory[2]) / 3;
          EXPECT_EQ(decision.memory, (std::vector{others.memory[0], memory.empty() ? first : memory[1],
                                                  others.memory[1], others.memory[2]}));
        } else {
          EXPECT_EQ(decision.memory, others.memory);
        }
      }
}

TEST(Guard, whatIsRememberedOfPositionsIsReSampledOnceAndNotBlurredStepByStep) {
  const Rule rule = adacons();
  std::vector<double> with_absent = memory_after(rule, 4, 3), alone = resample(with_absent, Belonging::position, 3);
  for (std::uint32_t step = 0; step < 5; ++step) {
    const Gradients gradients = drawn({4, 5, step});
    with_absent = decide(rule, {}, statistics_of(gradients, {1, 0, 1, 1}), with_absent).memory;
    alone = decide(rule, {}, statistics_of(without(gradients, 1)), alone).memory;
    EXPECT_EQ(with_absent, alone);
  }
  EXPECT_EQ(decide(rule, {}, statistics_of(drawn({4, 5, 9})), with_absent).memory.size(), 4u);
}

TEST(Guard, aWorkerWithSamplesMayNot) {
  Gradients gradients = drawn({3});
  gradients[1][0] = kNaN;
  gradients[2][0] = kNaN;
  const Statistics statistics = statistics_of(gradients, {1, 0, 3});
  EXPECT_TRUE(decide(weighted_mean(), {}, statistics, {}).propagates);
  EXPECT_EQ(decide(weighted_mean(), kExclude, statistics, {}).c, (std::vector<double>{1, 0, 0}));
}

TEST(Guard, withoutAnySamplesItIsTheNormalizedMeanOfWhatIsFinite) {
  Gradients gradients = drawn({3});
  gradients[1][0] = kNaN;
  const Decision decision = decide(weighted_mean(), {}, statistics_of(gradients, {0, 0, 0}), {});
  EXPECT_EQ(decision.event, Event::unsafe);
  expect_near(combined(decision.c, gradients), oracle::normalized_mean(without(gradients, 1), kEps), 1e-9);
}

TEST(Guard, withoutAnySamplesAndNothingKnownTheResultIsZero) {
  const Decision unknown = decide(weighted_mean(), {}, Statistics::none({0, 0}), {});
  EXPECT_EQ(unknown.event, Event::unsafe);
  EXPECT_TRUE(are_zero(unknown.c));
  const Decision nothing = decide(weighted_mean(), {}, statistics_of(Gradients(2, Vector(3, kNaN)), {0, 0}), {});
  EXPECT_EQ(nothing.event, Event::unsafe);
  EXPECT_TRUE(are_zero(nothing.c));
}

TEST(Guard, ofTwoTheFirstIsReported) {
  Gradients gradients(3, Vector(4));
  gradients[0][0] = kNaN;
  const Decision decision = decide(adacons(), kExclude, statistics_of(gradients), {});
  EXPECT_EQ(decision.event, Event::non_finite);
  EXPECT_FALSE(decision.propagates);
  EXPECT_TRUE(are_zero(decision.c));
}

TEST(GuardDeathTest, tooFewStatisticsAreAProgrammerError) {
  EXPECT_DEATH(decide(adasum(), {}, without_matrix(statistics_of(drawn({2}))), {}), "statistics that this rule needs");
  EXPECT_DEATH(decide(mean(), kExclude, Statistics::none(ones(2)), {}), "statistics that this rule needs");
}

TEST(GuardDeathTest, matchingWhatHasNoSharesIsAProgrammerError) {
  EXPECT_DEATH(decide(adasum(), {.magnitude = Magnitude::matched}, statistics_of(drawn({2})), {}),
               "shares that can be matched");
}

TEST(GuardDeathTest, aMemoryOfOtherWorkersIsAProgrammerError) {
  EXPECT_DEATH(decide(direction_consensus(), {}, statistics_of(drawn({3})), {1, 2}), "a memory for as many workers");
}

// Of five steps on end each, with a patience of three: which workers are left out in the last one.
TEST(NonFiniteRuns, leaveOutOnlyAMinorityThatDiffersFromTheOthers) {
  for (std::size_t workers = 1; workers <= 6; ++workers)
    for (std::size_t broken = 0; broken <= workers; ++broken) {
      NonFiniteRuns runs(workers, 3);
      std::vector<bool> finite(workers, true), expected(workers);
      for (std::size_t i = 0; i < broken; ++i) finite[i] = false, expected[i] = 2 * broken < workers;
      NonFiniteRuns::Verdict verdict;
      for (int step = 0; step < 5; ++step) {
        verdict = runs.count(ones(workers), finite);
        EXPECT_EQ(verdict.all_broken, broken == workers);
        for (std::size_t i = 0; i < broken; ++i) {
          EXPECT_EQ(verdict.left_out[i], expected[i] && step >= 3) << broken << " of " << workers << ", step " << step;
          EXPECT_EQ(verdict.stuck[i], !expected[i] && broken < workers && step >= 2) << broken << " of " << workers;
        }
      }
      EXPECT_EQ(verdict.left_out, expected) << broken << " of " << workers;
      for (std::size_t i = 0; i < workers; ++i) EXPECT_EQ(runs.leaves_out(i), expected[i]);
    }
}

TEST(NonFiniteRuns, aStepInWhichHalfAreNotFiniteUsesUpNoPatienceAndLeavesOutNone) {
  NonFiniteRuns runs(4, 3);
  const std::vector<bool> one{true, false, true, true}, all(4, false), none(4, true);
  for (int step = 0; step < 3; ++step) runs.count(ones(4), one);
  EXPECT_TRUE(runs.leaves_out(1));
  for (int step = 0; step < 10; ++step) EXPECT_EQ(runs.count(ones(4), all).left_out, std::vector<bool>(4));
  EXPECT_EQ(runs.runs(), (std::vector<std::int64_t>{0, 3, 0, 0}));
  EXPECT_TRUE(runs.count(ones(4), one).left_out[1]) << "it has used up its patience before";
  runs.count(ones(4), none);
  EXPECT_EQ(runs.runs(), std::vector<std::int64_t>(4));
}

TEST(NonFiniteRuns, countOnlyWorkersThatHaveSomethingToSend) {
  NonFiniteRuns runs(5, 2);
  const std::vector<bool> finite{false, false, true, true, true};
  for (int step = 0; step < 2; ++step) runs.count(ones(5), finite);
  EXPECT_TRUE(runs.leaves_out(0) && runs.leaves_out(1));
  const NonFiniteRuns::Verdict verdict = runs.count(std::vector<double>{1, 1, 1, 1, 0}, finite);
  EXPECT_EQ(verdict.left_out, std::vector<bool>(5)) << "two of four are half";
  EXPECT_FALSE(runs.leaves_out(0) || runs.leaves_out(1));
}

TEST(Event, hasAName) {
  EXPECT_EQ(to_string(Event::none), "none");
  EXPECT_EQ(to_string(Event::non_finite), "non_finite");
  EXPECT_EQ(to_string(Event::all_zero), "all_zero");
  EXPECT_EQ(to_string(Event::unsafe), "unsafe");
}

}  // namespace
}  // namespace flockstep::math
