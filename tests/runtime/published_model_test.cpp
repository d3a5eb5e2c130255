// The published merge by itself: made-up sequences of what an agent calls, on one worker, without any transfer.
#include "runtime/rounds/published_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/one_round.h"

namespace flockstep::runtime::published_model_test {
namespace {

using protocol::Outcome;
using Model = std::vector<float>;

constexpr std::size_t kParameters = 5, kSize = 7;  // two running statistics

Model filled(float value) { return Model(kSize, value); }
Model parameters_of(const Model& model) { return {model.begin(), model.begin() + kParameters}; }
Model statistics_of(const Model& model) { return {model.begin() + kParameters, model.end()}; }
Model parameters(float value) { return Model(kParameters, value); }
Model statistics(float value) { return Model(kSize - kParameters, value); }

// One worker that started from zeros, on its own.
struct Scene {
  explicit Scene(engines::Engine& engine, math::UpdateGuard* guard = nullptr)
      : context(engine, base::Duration(600)), published(context, kSize, {guard, kSize - kParameters}) {
    published.reset(filled(0));
  }

  OneRound begin_round(bool is_fresh = false) { return {published, kParameters, is_fresh}; }
  OneRound begin_last_of_period(bool is_fresh) { return {published, kSize, is_fresh}; }
  void run_round(float average, int members) { begin_round().end_with(parameters(average), members); }
  // What a round would read now; it then gives no average that anybody merges.
  Model read_by_next_round() {
    OneRound round(published, kSize, false);
    const Model contribution = round.contribution();
    round.end_with(filled(-1000), 2);
    return contribution;
  }

  // The worker arrives with a model, and is let go at once.
  Model arrive(float value, Outcome outcome) {
    Model model = filled(value);
    published.arrive(model);
    published.merge(model, outcome);
    published.proceed(model);
    return model;
  }

  Context context;
  PublishedModel published;
};

TEST(PublishedModel, freshAndNotMerged_givesAModelThatIsAllOfOneIteration) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    Model model = filled(3), given(kSize);
    scene.published.arrive(model);
    scene.begin_round(true).end_with(parameters(5), 2);
    scene.published.give(given);
    EXPECT_EQ(given, filled(3));
  });
}

TEST(PublishedModel, fresh_takesTheAverageAndHasPublishedItsOwn) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    Model model = filled(6);
    scene.published.arrive(model);
    OneRound round = scene.begin_round(true);
    EXPECT_EQ(round.contribution(), parameters(6));
    round.end_with(parameters(4), 3);
    scene.published.merge(model, Outcome::fresh);
    scene.published.proceed(model);
    EXPECT_EQ(parameters_of(model), parameters(4));
    EXPECT_EQ(statistics_of(model), statistics(6));
    EXPECT_EQ(scene.read_by_next_round(), filled(6)) << "running statistics are published too";
  });
}

TEST(PublishedModel, staleInFlight_mergesWithMembersPlusOne) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    OneRound round = scene.begin_round();
    Model model = filled(12);
    scene.published.arrive(model);
    EXPECT_EQ(round.contribution(), parameters(0)) << "what was taken stays";
    round.end_with(parameters(3), 2);
    scene.published.merge(model, Outcome::stale_in_flight);
    scene.published.proceed(model);
    EXPECT_EQ(parameters_of(model), parameters((2 * 3.0f + 12) / 3));
    EXPECT_EQ(statistics_of(model), statistics(12));
    EXPECT_EQ(scene.read_by_next_round(), filled(12)) << "W' is published, not what became of it";
  });
}

TEST(PublishedModel, staleBehindWithNothingUnderWay_mergesAndPublishes) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.run_round(3, 2);
    EXPECT_EQ(parameters_of(scene.arrive(12, Outcome::stale_behind)), parameters(6));
    EXPECT_EQ(scene.read_by_next_round(), filled(12));
  });
}

TEST(PublishedModel, staleBehindWhileALaterRoundIsUnderWay_mergesTheOneBeforeAndLeavesTheRoundAlone) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.arrive(1, Outcome::alone);
    scene.run_round(3, 2);
    OneRound later = scene.begin_round();
    const Model merged = scene.arrive(12, Outcome::stale_behind);
    EXPECT_EQ(parameters_of(merged), parameters(6));
    EXPECT_EQ(statistics_of(merged), statistics(12));
    EXPECT_EQ(later.contribution(), parameters(1));
    later.end_with(parameters(30), 4);
    EXPECT_EQ(parameters_of(scene.arrive(10, Outcome::stale_behind)), parameters((4 * 30.0f + 10) / 5));
    EXPECT_EQ(scene.read_by_next_round(), filled(10));
  });
}

TEST(PublishedModel, staleBehindWhileALaterRoundIsUnderWay_publishesItsOwnWithRunningStatistics) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.run_round(3, 2);
    OneRound later = scene.begin_round();
    scene.arrive(12, Outcome::stale_behind);
    later.end_with(parameters(30), 4);
    EXPECT_EQ(scene.read_by_next_round(), filled(12));
  });
}

TEST(PublishedModel, aloneTwiceInOneFlight_publishesTheSecondAndLeavesTheRoundAlone) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.arrive(1, Outcome::alone);
    scene.run_round(3, 2);
    scene.arrive(2, Outcome::stale_behind);
    OneRound round = scene.begin_round();
    EXPECT_EQ(scene.arrive(7, Outcome::alone), filled(7));
    EXPECT_EQ(scene.arrive(8, Outcome::alone), filled(8));
    EXPECT_EQ(round.contribution(), parameters(2));
    round.end_with(parameters(5), 2);
    EXPECT_EQ(parameters_of(scene.arrive(11, Outcome::stale_behind)), parameters(7)) << "the round's average is whole";
    EXPECT_EQ(scene.read_by_next_round(), filled(11));
  });
}

TEST(PublishedModel, aloneInAFlight_isWhatTheNextRoundReads) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    OneRound round = scene.begin_round();
    scene.arrive(7, Outcome::alone);
    scene.arrive(8, Outcome::alone);
    round.end_with(parameters(5), 2);
    EXPECT_EQ(scene.read_by_next_round(), filled(8));
  });
}

TEST(PublishedModel, severalRoundsBehind_mergesTheNewestOnce) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    for (const float average : {100.0f, 200.0f, 3.0f}) scene.run_round(average, 2);
    EXPECT_EQ(parameters_of(scene.arrive(12, Outcome::stale_behind)), parameters(6));
    EXPECT_EQ(scene.arrive(13, Outcome::alone), filled(13));
    EXPECT_EQ(scene.read_by_next_round(), filled(13));
  });
}

TEST(PublishedModel, severalRoundsBehindWithOneUnderWay_mergesTheNewestThatIsComplete) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    for (const float average : {100.0f, 200.0f, 3.0f}) scene.run_round(average, 2);
    OneRound later = scene.begin_round();
    EXPECT_EQ(parameters_of(scene.arrive(12, Outcome::stale_behind)), parameters(6));
    EXPECT_EQ(scene.arrive(13, Outcome::alone), filled(13));
    EXPECT_EQ(later.contribution(), parameters(0));
    later.end_with(parameters(5), 2);
    EXPECT_EQ(scene.read_by_next_round(), filled(13));
  });
}

TEST(PublishedModel, synchronised_publishesTheAverageWithRunningStatistics) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    Model model = filled(6);
    scene.published.arrive(model);
    OneRound round = scene.begin_last_of_period(true);
    EXPECT_EQ(round.contribution(), filled(6));
    round.end_with(filled(4), 8);
    scene.published.merge(model, Outcome::synchronised);
    scene.published.proceed(model);
    EXPECT_EQ(model, filled(4));
    EXPECT_EQ(scene.read_by_next_round(), filled(4));
  });
}

TEST(PublishedModel, lastRoundOfAPeriodThatRanWithoutTheWorker_bringsRunningStatistics) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.begin_last_of_period(false).end_with(filled(3), 2);
    EXPECT_EQ(scene.arrive(12, Outcome::stale_behind), filled(6));
    scene.begin_last_of_period(false).end_with(filled(3), 2);
    OneRound later = scene.begin_round();
    EXPECT_EQ(scene.arrive(12, Outcome::stale_behind), filled(6)) << "while a later one is under way, too";
    later.end_with(parameters(5), 2);
    EXPECT_EQ(scene.read_by_next_round(), filled(12));
  });
}

TEST(PublishedModel, whoWasToGetAModelThatNeverCame_goesOnWithItsOwn) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    Model model = filled(3);
    std::ranges::fill(scene.published.place_for_model(model), -7.0f);
    scene.published.rejoin(model, false);
    EXPECT_EQ(model, filled(3));
    EXPECT_EQ(scene.read_by_next_round(), filled(3));
  });
}

// Expelled while it waited for its round, the worker computes with what it has joined with.
TEST(PublishedModel, whoJoinsAnew_publishesNothingOfBefore) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    Model model = filled(3);
    scene.published.arrive(model);
    std::ranges::fill(scene.published.place_for_model(model), 5.0f);
    scene.published.rejoin(model, true);
    EXPECT_EQ(model, filled(5));
    std::ranges::fill(model, 9.0f);
    EXPECT_EQ(scene.read_by_next_round(), filled(5));
  });
}

TEST(PublishedModel, reset_publishesTheModelAndForgetsAverages) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.run_round(3, 2);
    scene.published.reset(filled(9));
    EXPECT_EQ(scene.arrive(10, Outcome::alone), filled(10));
    scene.published.reset(filled(9));
    EXPECT_EQ(scene.read_by_next_round(), filled(9));
  });
}

// The others move by one in every parameter.
struct GuardedScene : Scene {
  explicit GuardedScene(engines::Engine& engine) : Scene(engine, &guard) { guard.hear(1, {.norm = std::sqrt(5.0f)}); }
  // The worker, which went on from `before`, arrives with `value`: what of it a fresh round takes.
  Model take(float value) {
    Model model = filled(value);
    published.arrive(model);
    const Model taken = begin_round(true).contribution();
    published.abandon();
    return taken;
  }

  math::UpdateGuard guard;
};

void expect_near(const Model& model, float value) {
  for (const float number : model) EXPECT_NEAR(number, value, 1e-5);
}

TEST(PublishedModel, guarded_anUpdateIsMeasuredFromTheAverageThatTheWorkerWentOnFrom) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    Model model = filled(1);
    scene.published.arrive(model);
    scene.begin_round(true).end_with(parameters(20), 2);
    scene.published.merge(model, Outcome::fresh);
    scene.published.proceed(model);
    expect_near(scene.take(28), 22);
    EXPECT_EQ(scene.guard.counts().clipped, 1);
  });
}

TEST(PublishedModel, guarded_theSnapshotOutlastsOneRoundWithoutTheWorker) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.run_round(30, 2);
    scene.arrive(0, Outcome::stale_behind);  // goes on from (60 + 0) / 3
    scene.run_round(40, 2);
    EXPECT_NEAR(scene.arrive(28, Outcome::stale_behind)[0], (2 * 40 + 22) / 3.0, 1e-5);
  });
}

TEST(PublishedModel, guarded_afterTwoRoundsWithoutTheWorkerItsUpdateIsMeasuredFromWhatItPublished) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.run_round(30, 2);
    scene.arrive(0, Outcome::stale_behind);
    scene.run_round(40, 2);
    scene.run_round(50, 2);
    EXPECT_NEAR(scene.arrive(8, Outcome::stale_behind)[0], (2 * 50 + 2) / 3.0, 1e-5);
  });
}

TEST(PublishedModel, guarded_theSnapshotIsNotWhereAnAverageLiesThatIsMergedNext) {
  for (const int rounds : {1, 2, 3})
    alone_on_an_engine<GuardedScene>([&](GuardedScene& scene) {
      Model model = filled(1);
      scene.published.arrive(model);
      scene.begin_round(true).end_with(parameters(20), 2);
      scene.published.merge(model, Outcome::fresh);
      for (int round = 1; round <= rounds; ++round) scene.run_round(40, 2);  // while the worker waits to go on
      scene.published.proceed(model);
      EXPECT_NEAR(scene.arrive(28, Outcome::stale_behind)[0], (2 * 40 + 22) / 3.0, 1e-5) << rounds;
    });
}

TEST(PublishedModel, guarded_anUpdateOfOneThatJoinsInPlaceOfArrivingIsJudged) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.arrive(20, Outcome::alone);
    scene.guard.count_step();
    Model model = filled(std::numeric_limits<float>::quiet_NaN());
    scene.published.rejoin(model, false);
    EXPECT_EQ(parameters_of(model), parameters_of(scene.read_by_next_round()));
    EXPECT_TRUE(std::isfinite(model[0]));
  });
}

TEST(PublishedModel, guarded_aModelThatIsNotFiniteIsNeitherPublishedNorKept) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.run_round(30, 2);
    scene.arrive(0, Outcome::stale_behind);
    const Model model = scene.arrive(std::numeric_limits<float>::quiet_NaN(), Outcome::alone);
    EXPECT_EQ(parameters_of(model), parameters(20)) << "it begins again from where it was";
    EXPECT_EQ(parameters_of(scene.read_by_next_round()), parameters(20));
  });
}

}  // namespace
}  // namespace flockstep::runtime::published_model_test
