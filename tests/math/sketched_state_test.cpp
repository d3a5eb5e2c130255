// What sketched consensus remembers: through steps that are not finite, another rule, other buckets and checkpoints.
#include "sketched_fixture.h"

namespace flockstep::math {
namespace {

constexpr std::size_t kC = 3, kMemory = 4, kNorms = 5;  // rows of a state with one section

Flock practised(const Rule& rule, SketchedShape shape, AggregateOptions options = kGuarded) {
  Flock flock(rule, options, std::move(shape));
  for (std::uint32_t step = 0; step < 5; ++step) flock.step(rounded(drawn({flock.shape.workers, 3, step, 20, 0.6, 5})));
  return flock;
}

Gradients broken(std::size_t worker, Gradients gradients) {
  gradients[worker][3] = kNaN;
  return gradients;
}

TEST(SketchedState, aStepThatIsNotFiniteLeavesItAsItWas) {
  for (const NonFinite non_finite : {NonFinite::propagate, NonFinite::exclude})
    for (const Rule& rule : {mean(), adacons(), direction_consensus()}) {
      AggregateOptions options = kGuarded;
      options.non_finite = non_finite;
      Flock flock = practised(rule, {4, kBuckets}, options);
      Sketched::State before = flock.state.state();
      Gradients gradients = broken(1, alike(4));
      gradients[0] = oracle::scaled(1e9, gradients[0]);
      EXPECT_EQ(flock.step(gradients).outcome.event, Event::non_finite);
      before[0][0] += 1;
      before[2][1] += 1;
      EXPECT_EQ(flock.state.state(), before);
    }
}

TEST(SketchedState, aFirstStepThatIsNotFiniteIsTakenAgain) {
  Flock flock(direction_consensus(), kGuarded, {3, kBuckets});
  EXPECT_EQ(flock.step(broken(2, alike(3))).outcome.event, Event::non_finite);
  EXPECT_FALSE(flock.state.knows_all());
  EXPECT_EQ(flock.state.references(), std::vector<double>(3, 0));
  flock.step(alike(3));
  EXPECT_TRUE(flock.state.knows_all());
}

// Absence is no end of a run of steps that are not finite, and no part of it. Without patience no run ends.
TEST(SketchedState, fiveStepsOnEndAndAWorkerIsLeftOutUntilItIsFinite) {
  const std::vector<double> all = ones(4), three = {1, 0, 1, 1};
  for (const std::int64_t patience : {0, 5}) {
    AggregateOptions options = kGuarded;
    options.patience = patience;
    Flock flock = practised(direction_consensus(), {4, kBuckets}, options);
    for (const std::vector<double>& weights : {all, all, three, three, all, three, three, three, all, all, all, all}) {
      const bool leaves_out = flock.state.leaves_out(1), is_there = weights[1] > 0;
      const Taken taken = flock.step(broken(1, alike(4)), weights);
      EXPECT_EQ(taken.outcome.event, is_there && !leaves_out ? Event::non_finite : Event::none);
      if (leaves_out) {
        EXPECT_EQ(flock.state.coefficients(0)[1], 0);
        EXPECT_GT(flock.state.coefficients(0)[0], 0);
      }
    }
    EXPECT_EQ(flock.state.leaves_out(1), patience > 0);
    EXPECT_EQ(flock.step(alike(4)).outcome.event, Event::none);
    EXPECT_FALSE(flock.state.leaves_out(1));
    EXPECT_GT(flock.state.coefficients(0)[1], 0);
    EXPECT_EQ(flock.step(broken(1, alike(4))).outcome.event, Event::non_finite);
  }
}

TEST(SketchedState, stepsInWhichAllOverflowLeaveNobodyOutAndTheStateAsItWas) {
  for (const std::size_t workers : {1u, 2u, 4u}) {
    Flock flock = practised(direction_consensus(), {workers, kBuckets});
    Sketched::State before = flock.state.state();
    for (int step = 0; step < 12; ++step) {
      Gradients gradients = alike(workers);
      for (std::size_t i = 0; i < workers; ++i) gradients = broken(i, gradients);
      const Taken taken = flock.step(gradients);
      EXPECT_EQ(taken.outcome.event, Event::non_finite) << "P = " << workers << ", step " << step;
      EXPECT_EQ(taken.outcome.left_out, std::vector<bool>(workers));
      EXPECT_TRUE(flock.state.all_broken());
    }
    before[0][0] += 12;
    EXPECT_EQ(flock.state.state(), before);
    flock.step(alike(workers));
    EXPECT_FALSE(flock.state.all_broken());
  }
}

TEST(SketchedState, anotherRuleDecidesFromTheStepThatIsObservedNext) {
  Flock flock = practised(adacons(), {4, kBuckets});
  flock.state.follow_with(direction_consensus(), kGuarded, false);
  const std::vector<double> before = flock.state.coefficients(0), norms = flock.state.state()[kNorms];
  const Gradients gradients = rounded(drawn({4, 9, 0, 20, 0.6, 5}));
  const Taken taken = flock.step(gradients);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(taken.outcome.coefficients[i], before[i], 1e-12);
  // As if it had always been followed, but for what it would remember.
  oracle::Lagged expected{
      oracle::Agreement::direction_consensus, kBuckets, before, {}, norms, std::vector<double>(3), std::vector<int>(4)};
  expected.step(gradients, ones(4));
  expect_near(flock.state.coefficients(0), expected.c, 1e-7);
  expect_near(flock.state.state()[kMemory], expected.m, 1e-7);
  expect_near(flock.state.state()[kNorms], expected.nb, 1e-7);
  EXPECT_EQ(flock.state.steps(), 6);
}

TEST(SketchedState, theSameRuleWithOtherOptionsMayKeepWhatItRemembers) {
  Flock kept = practised(direction_consensus(), {4, kBuckets}),
        undisturbed = practised(direction_consensus(), {4, kBuckets});
  kept.state.follow_with(direction_consensus(), kGuarded, true);
  for (Flock* flock : {&kept, &undisturbed}) flock->step(alike(4));
  Sketched::State state = kept.state.state(), expected = undisturbed.state.state();
  constexpr std::size_t kReferences = 1;  // begin anew, since other options may have another scale
  state[kReferences].clear();
  expected[kReferences].clear();
  EXPECT_EQ(state, expected);
}

TEST(SketchedState, aRuleThatLooksAtNothingMayFollowAndBeFollowed) {
  Flock flock = practised(mean(), {4, kBuckets}, {.guard = 3});
  EXPECT_TRUE(flock.state.is_blind());
  flock.state.follow_with(direction_consensus(), kGuarded, false);
  EXPECT_TRUE(flock.state.is_blind());
  flock.step(alike(4));
  EXPECT_FALSE(flock.state.is_blind());
  EXPECT_TRUE(flock.state.knows_all());
  EXPECT_LT(oracle::norm(flock.step(alike(4)).sum), 2.5);
  flock.state.follow_with(mean(), {.guard = 3}, false);
  flock.step(alike(4));
  EXPECT_TRUE(flock.state.is_blind());
}

TEST(SketchedState, otherBucketsForgetReferencesAndNothingElse) {
  Flock flock = practised(direction_consensus(), {4, kBuckets});
  Sketched::State expected = flock.state.state();
  EXPECT_GT(expected[1][0], 0);
  flock.state.set_shape({4, {15, 5}});
  expected[1] = {0, 0};
  EXPECT_EQ(flock.state.state(), expected);
}

TEST(SketchedState, otherBucketsForgetEverythingWhereTheyAreSections) {
  Flock flock = practised(direction_consensus(), {4, kBuckets, true});
  EXPECT_TRUE(flock.state.knows_all());
  flock.state.set_shape({4, {8, 5, 7}, true});
  EXPECT_FALSE(flock.state.knows(0) || flock.state.knows(2));
  flock.state.set_shape({4, {15, 5}, true});
  EXPECT_EQ(flock.state.state(), (Sketched::State{{5, 4, 2}, {0, 0}, {0, 0, 0, 0}, {}, {}, {}, {}, {}, {}}));
  EXPECT_FALSE(flock.state.knows(0) || flock.state.knows(1));
}

TEST(SketchedStateDeathTest, otherWorkersTakeAnotherSketched) {
  Flock flock = practised(direction_consensus(), {4, kBuckets});
  EXPECT_DEATH(flock.state.set_shape({5, kBuckets}), "as many workers");
}

TEST(SketchedState, goesOnToTheBitFromACheckpoint) {
  for (const NamedRule& named : every_rule())
    for (const bool section_per_bucket : {false, true}) {
      if (named.name == "adasum") continue;
      SCOPED_TRACE(named.name);
      Flock flock = practised(named.rule, {4, kBuckets, section_per_bucket});
      flock.step(broken(1, alike(4)));
      Flock resumed(named.rule, kGuarded, {4, kBuckets, section_per_bucket});
      ASSERT_TRUE(resumed.state.set_state(flock.state.state()));
      EXPECT_EQ(resumed.state.steps(), 6);
      for (std::uint32_t step = 0; step < 10; ++step) {
        Gradients gradients = rounded(drawn({4, 9, step, 20, 0.6, 5}));
        if (step < 4) gradients = broken(1, gradients);  // five on end with the one before
        if (step == 6) gradients[2] = oracle::scaled(1000, gradients[2]);
        const Taken expected = flock.step(gradients), taken = resumed.step(gradients);
        if (expected.outcome.event != Event::non_finite) {
          EXPECT_EQ(taken.sum, expected.sum);
        }
        EXPECT_EQ(taken.outcome.clipped, expected.outcome.clipped);
        EXPECT_EQ(resumed.state.state(), flock.state.state());
      }
    }
}

TEST(SketchedState, ofANewRunIsAStateToo) {
  Flock flock = practised(adacons(), {4, kBuckets});
  ASSERT_TRUE(flock.state.set_state(Sketched(adacons(), kGuarded, {4, kBuckets}).state()));
  EXPECT_FALSE(flock.state.knows(0));
  EXPECT_EQ(flock.state.references(), std::vector<double>(3, 0));
}

TEST(SketchedState, ofOtherWorkersKeepsWhatBelongsToPositions) {
  const Sketched::State five = practised(adacons(), {5, kBuckets}).state.state();
  Flock three(adacons(), kGuarded, {3, kBuckets});
  ASSERT_TRUE(three.state.set_state(five));
  const std::vector<double>& m = five[kMemory];
  EXPECT_EQ(three.state.state(), (Sketched::State{{5, 3, 1}, {0, 0, 0}, {0, 0, 0}, {}, {m[0], m[2], m[4]}, {}}));
  three.step(alike(3));
  Flock agreeing(direction_consensus(), kGuarded, {3, kBuckets});
  ASSERT_TRUE(agreeing.state.set_state(practised(direction_consensus(), {5, kBuckets}).state.state()));
  EXPECT_EQ(agreeing.state.state(), (Sketched::State{{5, 3, 1}, {0, 0, 0}, {0, 0, 0}, {}, {}, {}}));
}

TEST(SketchedState, ofOtherBucketsKeepsAllButReferences) {
  const Sketched::State before = practised(direction_consensus(), {4, kBuckets}).state.state();
  Sketched other(direction_consensus(), kGuarded, {4, {10, 10}});
  ASSERT_TRUE(other.set_state(before));
  Sketched::State expected = before;
  expected[1] = {0, 0};
  EXPECT_EQ(other.state(), expected);
  // Where sections are others, nothing can be told apart.
  Sketched sections(direction_consensus(), kGuarded, {4, {10, 10}, true});
  ASSERT_TRUE(sections.set_state(before));
  EXPECT_FALSE(sections.knows(0));
}

TEST(SketchedState, ofARuleWithAnotherMemoryDoesNoHarm) {
  // adacons remembers as many positions as took part in its last step.
  Flock flock = practised(adacons(), {4, kBuckets});
  flock.state.set_state(Flock(adacons(), kGuarded, {4, kBuckets}).state.state());
  flock.step(alike(4), {1, 1, 1, 0});
  ASSERT_EQ(flock.state.state()[kMemory].size(), 3u);
  Flock other(direction_consensus(), kGuarded, {4, kBuckets});
  ASSERT_TRUE(other.state.set_state(flock.state.state()));
  EXPECT_EQ(other.step(alike(4)).outcome.event, Event::none);
}

TEST(SketchedState, garbageIsRefusedAndNothingIsTaken) {
  Flock flock = practised(direction_consensus(), {4, kBuckets});
  const Sketched::State good = flock.state.state();
  std::vector<Sketched::State> bad = {{}, {{1, 4, 1}}, {{}, {}, {}}};
  const auto with = [&](auto change) {
    bad.push_back(good);
    change(bad.back());
  };
  for (const double number : {-1.0, 0.5, kNaN, kInfinity, 1e300}) {
    for (std::size_t column = 0; column < 3; ++column) with([&](auto& state) { state[0][column] = number; });
    with([&](auto& state) { state[2][1] = number; });
  }
  for (const double number : {-1.0, kNaN, kInfinity}) {
    with([&](auto& state) { state[1][2] = number; });
    with([&](auto& state) { state[kNorms][2] = number; });
  }
  for (const double number : {kNaN, -kInfinity})
    for (const std::size_t row : {kC, kMemory}) with([&](auto& state) { state[row][2] = number; });
  with([](auto& state) { state.pop_back(); });
  with([](auto& state) { state.push_back({}); });
  with([](auto& state) { state[0].push_back(0); });
  with([](auto& state) { state[0][2] = 0; });
  with([](auto& state) { state[0][2] = 2; });
  for (const std::size_t row : {std::size_t{2}, kC, kNorms}) {
    with([&](auto& state) { state[row].pop_back(); });
    with([&](auto& state) { state[row].push_back(1); });
  }
  with([](auto& state) { state[kMemory].push_back(1); });
  for (std::size_t k = 0; k < bad.size(); ++k) {
    SCOPED_TRACE(k);
    EXPECT_FALSE(flock.state.set_state(bad[k]));
    EXPECT_EQ(flock.state.state(), good);
  }
  EXPECT_TRUE(flock.state.set_state(good));
}

}  // namespace
}  // namespace flockstep::math
