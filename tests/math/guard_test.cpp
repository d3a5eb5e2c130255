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
      const std::vector<double> memory = memory_after(named.rule, 4, steps_before);
      const auto expect_propagates = [&](const AggregateOptions& options, const Gradients& gradients) {
        SCOPED_TRACE(testing::Message() << named.name << " after " << steps_before << " steps");
        const Decision decision = decide(named.rule, options, statistics_of(gradients), memory);
        EXPECT_EQ(decision.event, Event::non_finite);
        EXPECT_TRUE(decision.propagates);
        EXPECT_EQ(decision.memory, memory);
        for (const double value : combined(decision.c, gradients)) EXPECT_FALSE(std::isfinite(value));
      };
      for (const double bad : {kNaN, kInfinity, -kInfinity}) {
        Gradients gradients = drawn({4});
        gradients[2][1] = bad;
        expect_propagates({}, gradients);
      }
      expect_propagates(kExclude, Gradients(4, Vector(4, kNaN)));  // no worker is left
    }
  }
}

template <typename T>
std::vector<T> inserted(std::vector<T> values, std::size_t place, T value) {
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(place), value);
  return values;
}

// A worker without samples, without which the memory goes on, or one that is not finite and is excluded, in whose step
// nothing is remembered.
TEST(Guard, aWorkerThatIsLeftOutIsAsIfItHadNeverBeen) {
  for (const NamedRule& named : every_rule())
    for (const bool has_samples : {false, true})
      for (const std::uint32_t steps_before : {0u, 3u})
        for (const Magnitude magnitude : kMagnitudes)
          for (const std::size_t out : {0u, 1u, 3u}) {
            if (magnitude == Magnitude::matched && named.name == "adasum") continue;
            SCOPED_TRACE(testing::Message() << named.name << " after " << steps_before << " steps without worker "
                                            << out << (has_samples ? ", which is not finite" : ""));
            AggregateOptions options{.magnitude = magnitude};
            Gradients gradients = drawn({4});
            std::vector<double> weights = ones(4);
            if (has_samples) {
              options.non_finite = NonFinite::exclude;
              gradients[out][0] = kNaN;
            } else {
              weights[out] = 0;
            }
            const bool is_by_worker = named.rule.belonging == Belonging::worker;
            const std::vector<double> memory = memory_after(named.rule, 4, steps_before);
            std::vector<double> of_others = memory;
            if (is_by_worker && !memory.empty()) of_others.erase(of_others.begin() + static_cast<std::ptrdiff_t>(out));
            if (!is_by_worker) of_others = resample(memory, named.rule.belonging, 3);
            const Decision decision = decide(named.rule, options, statistics_of(gradients, weights), memory);
            const Decision others = decide(named.rule, options, statistics_of(without(gradients, out)), of_others);
            EXPECT_EQ(decision.event, has_samples ? Event::non_finite : Event::none);
            EXPECT_FALSE(decision.propagates);
            EXPECT_EQ(decision.c, inserted(others.c, out, 0.0));
            EXPECT_EQ(decision.norm, others.norm);
            std::vector<double> expected = has_samples ? memory : others.memory;
            if (!has_samples && is_by_worker) {  // it begins with the mean of the others
              const double first = (expected[0] + expected[1] + expected[2]) / 3;
              expected = inserted(expected, out, memory.empty() ? first : memory[out]);
            }
            EXPECT_EQ(decision.memory, expected);
          }
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

TEST(Guard, zerosEverywhereGiveZero) {
  for (const NamedRule& named : every_rule()) {
    for (const std::uint32_t steps_before : {0u, 3u}) {
      for (const Magnitude magnitude : kMagnitudes) {
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

struct UnsafeCase {
  const char* name;
  Rule rule;
  Gradients gradients;
  std::vector<double> memory;
};

TEST(Guard, withoutASafeNormalisationItIsTheNormalizedMeanAtTheSameMagnitude) {
  const UnsafeCase cases[] = {
      {"shares below zero", adacons(), drawn({3}), {-30, -20, -10}},
      {"the same, clipped", adacons({.negative = Negative::clip}), drawn({3}), {-30, -20, -10}},
      {"workers that agree with none", direction_consensus(), drawn({3}), {-1, -1, -1}},
      {"two that cancel beside one that counts nothing", direction_consensus(), {{2, 0}, {-3, 0}, {0, 5}}, {1, 1, -1}},
      {"zeros alone count", direction_consensus(), {{0, 0}, {0, 5}}, {1, -1}}};
  for (const UnsafeCase& each : cases)
    for (const Magnitude magnitude : kMagnitudes) {
      SCOPED_TRACE(testing::Message() << each.name << ", magnitude " << static_cast<int>(magnitude));
      const AggregateOptions options{.magnitude = magnitude};
      const Statistics statistics = statistics_of(each.gradients);
      const Decision decision = decide(each.rule, options, statistics, each.memory);
      EXPECT_EQ(decision.event, Event::unsafe);
      EXPECT_EQ(decision.memory, each.memory);
      const Vector result = combined(decision.c, each.gradients);
      expect_near(result, combined(decide(normalized_mean(kEps), options, statistics, {}).c, each.gradients), 1e-7);
      if (magnitude == Magnitude::own) expect_near(result, oracle::normalized_mean(each.gradients, kEps), 1e-7);
    }
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
  EXPECT_EQ(decide(mean(), {.magnitude = Magnitude::mean_norm}, Statistics::none(ones(4)), {}).c, plain.c);
  EXPECT_EQ(decide(weighted_mean(), {}, Statistics::none({1, 3}), {}).c, (std::vector<double>{0.25, 0.75}));
}

TEST(Guard, onlyAWorkerWithoutSamplesMaySendAnything) {
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
  gradients[2][0] = kNaN;
  const Statistics statistics = statistics_of(gradients, {1, 0, 3});
  EXPECT_TRUE(decide(weighted_mean(), {}, statistics, {}).propagates);
  EXPECT_EQ(decide(weighted_mean(), kExclude, statistics, {}).c, (std::vector<double>{1, 0, 0}));
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

TEST(Guard, withoutAnySamplesItIsTheNormalizedMeanOfWhatIsFiniteOrZero) {
  Gradients gradients = drawn({3});
  gradients[1][0] = kNaN;
  const Decision decision = decide(weighted_mean(), {}, statistics_of(gradients, {0, 0, 0}), {});
  EXPECT_EQ(decision.event, Event::unsafe);
  expect_near(combined(decision.c, gradients), oracle::normalized_mean(without(gradients, 1), kEps), 1e-9);
  for (const Statistics& unknown : {Statistics::none({0, 0}), statistics_of(Gradients(2, Vector(3, kNaN)), {0, 0})}) {
    const Decision nothing = decide(weighted_mean(), {}, unknown, {});
    EXPECT_EQ(nothing.event, Event::unsafe);
    EXPECT_TRUE(are_zero(nothing.c));
  }
}

TEST(Guard, ofTwoTheFirstIsReported) {
  Gradients gradients(3, Vector(4));
  gradients[0][0] = kNaN;
  const Decision decision = decide(adacons(), kExclude, statistics_of(gradients), {});
  EXPECT_EQ(decision.event, Event::non_finite);
  EXPECT_FALSE(decision.propagates);
  EXPECT_TRUE(are_zero(decision.c));
}

TEST(GuardDeathTest, whatDoesNotFitTheRuleIsAProgrammerError) {
  EXPECT_DEATH(decide(adasum(), {}, without_matrix(statistics_of(drawn({2}))), {}), "statistics that this rule needs");
  EXPECT_DEATH(decide(mean(), kExclude, Statistics::none(ones(2)), {}), "statistics that this rule needs");
  EXPECT_DEATH(decide(adasum(), {.magnitude = Magnitude::matched}, statistics_of(drawn({2})), {}),
               "shares that can be matched");
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

}  // namespace
}  // namespace flockstep::math
