// The published merge by itself: made-up sequences of what an agent calls, on one worker, without any transfer. The
// schedule explorer has the other sequences, and a ledger that knows every number of them.
#include "runtime/rounds/published_model.h"

#include <cmath>
#include <limits>
#include <optional>

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
class PublishedModelTest : public OneWorker {
 protected:
  explicit PublishedModelTest(math::UpdateGuard* guard = nullptr)
      : published_(context_, kSize, {guard, kSize - kParameters}) {
    published_.reset(filled(0));
  }

  OneRound begin_round(bool is_fresh = false) { return {published_, kParameters, is_fresh}; }
  OneRound begin_last_of_period(bool is_fresh) { return {published_, kSize, is_fresh}; }
  void run_rounds(const std::vector<float>& averages) {
    for (const float average : averages) begin_round().end_with(parameters(average), 2);
  }
  // What a round would read now; it then gives no average that anybody merges.
  Model read_by_next_round() {
    OneRound round(published_, kSize, false);
    const Model contribution = round.contribution();
    round.end_with(filled(-1000), 2);
    return contribution;
  }

  // The worker arrives with a model, and is let go at once.
  Model arrive(float value, Outcome outcome) {
    Model model = filled(value);
    published_.arrive(model);
    go_on(model, outcome);
    return model;
  }
  void go_on(Model& model, Outcome outcome) {
    published_.merge(model, outcome);
    published_.proceed(model);
  }

  PublishedModel published_;
};

TEST_F(PublishedModelTest, freshAndNotMerged_givesAModelThatIsAllOfOneIteration) {
  Model model = filled(3), given(kSize);
  published_.arrive(model);
  begin_round(true).end_with(parameters(5), 2);
  published_.give(given);
  EXPECT_EQ(given, filled(3));
}

TEST_F(PublishedModelTest, fresh_takesTheAverageAndHasPublishedItsOwn) {
  Model model = filled(6);
  published_.arrive(model);
  OneRound round = begin_round(true);
  EXPECT_EQ(round.contribution(), parameters(6));
  round.end_with(parameters(4), 3);
  go_on(model, Outcome::fresh);
  EXPECT_EQ(parameters_of(model), parameters(4));
  EXPECT_EQ(statistics_of(model), statistics(6));
  EXPECT_EQ(read_by_next_round(), filled(6)) << "running statistics are published too";
}

TEST_F(PublishedModelTest, staleInFlight_mergesWithMembersPlusOne) {
  OneRound round = begin_round();
  Model model = filled(12);
  published_.arrive(model);
  EXPECT_EQ(round.contribution(), parameters(0)) << "what was taken stays";
  round.end_with(parameters(3), 2);
  go_on(model, Outcome::stale_in_flight);
  EXPECT_EQ(parameters_of(model), parameters((2 * 3.0f + 12) / 3));
  EXPECT_EQ(statistics_of(model), statistics(12));
  EXPECT_EQ(read_by_next_round(), filled(12)) << "W' is published, not what became of it";
}

TEST_F(PublishedModelTest, staleBehind_mergesTheNewestCompleteRoundOnceAndPublishesItsOwn) {
  for (const auto& averages : std::vector<std::vector<float>>{{3}, {100, 200, 3}})
    for (const bool has_later : {false, true})
      for (const bool arrives_again : {false, true}) {
        SCOPED_TRACE(testing::Message() << averages.size() << " rounds, a later one: " << has_later
                                        << ", alone afterwards: " << arrives_again);
        published_.reset(filled(0));
        run_rounds(averages);
        std::optional<OneRound> later;
        if (has_later) later.emplace(begin_round());
        const Model merged = arrive(12, Outcome::stale_behind);
        EXPECT_EQ(parameters_of(merged), parameters(6));
        EXPECT_EQ(statistics_of(merged), statistics(12));
        if (arrives_again) {
          EXPECT_EQ(arrive(13, Outcome::alone), filled(13));
        }
        if (later) {
          EXPECT_EQ(later->contribution(), parameters(0));
          later->end_with(parameters(30), 4);
        }
        EXPECT_EQ(read_by_next_round(), filled(arrives_again ? 13 : 12));
      }
}

TEST_F(PublishedModelTest, synchronised_publishesTheAverageWithRunningStatistics) {
  Model model = filled(6);
  published_.arrive(model);
  OneRound round = begin_last_of_period(true);
  EXPECT_EQ(round.contribution(), filled(6));
  round.end_with(filled(4), 8);
  go_on(model, Outcome::synchronised);
  EXPECT_EQ(model, filled(4));
  EXPECT_EQ(read_by_next_round(), filled(4));
}

TEST_F(PublishedModelTest, whoWasToGetAModelThatNeverCame_goesOnWithItsOwn) {
  Model model = filled(3);
  std::ranges::fill(published_.place_for_model(model), -7.0f);
  published_.rejoin(model, false);
  EXPECT_EQ(model, filled(3));
  EXPECT_EQ(read_by_next_round(), filled(3));
}

// Expelled while it waited for its round, the worker computes with what it has joined with.
TEST_F(PublishedModelTest, whoJoinsAnew_publishesNothingOfBefore) {
  Model model = filled(3);
  published_.arrive(model);
  std::ranges::fill(published_.place_for_model(model), 5.0f);
  published_.rejoin(model, true);
  EXPECT_EQ(model, filled(5));
  std::ranges::fill(model, 9.0f);
  EXPECT_EQ(read_by_next_round(), filled(5));
}

TEST_F(PublishedModelTest, reset_publishesTheModelAndForgetsAverages) {
  run_rounds({3});
  published_.reset(filled(9));
  EXPECT_EQ(arrive(10, Outcome::alone), filled(10));
  published_.reset(filled(9));
  EXPECT_EQ(read_by_next_round(), filled(9));
}

// The others move by one in every parameter.
class GuardedPublishedModelTest : public PublishedModelTest {
 protected:
  GuardedPublishedModelTest() : PublishedModelTest(&guard_) { guard_.hear(1, {.norm = std::sqrt(5.0f)}); }
};

TEST_F(GuardedPublishedModelTest, anUpdateIsMeasuredFromTheAverageThatTheWorkerWentOnFrom) {
  Model model = filled(1);
  published_.arrive(model);
  begin_round(true).end_with(parameters(20), 2);
  go_on(model, Outcome::fresh);
  std::ranges::fill(model, 28.0f);
  published_.arrive(model);
  for (const float number : begin_round(true).contribution()) EXPECT_NEAR(number, 22, 1e-5);
  EXPECT_EQ(guard_.counts().clipped, 1);
}

TEST_F(GuardedPublishedModelTest, anUpdateOfOneThatJoinsInPlaceOfArrivingIsJudged) {
  arrive(20, Outcome::alone);
  guard_.count_step();
  Model model = filled(std::numeric_limits<float>::quiet_NaN());
  published_.rejoin(model, false);
  EXPECT_EQ(parameters_of(model), parameters_of(read_by_next_round()));
  EXPECT_TRUE(std::isfinite(model[0]));
}

TEST_F(GuardedPublishedModelTest, aModelThatIsNotFiniteIsNeitherPublishedNorKept) {
  run_rounds({30});
  arrive(0, Outcome::stale_behind);
  const Model model = arrive(std::numeric_limits<float>::quiet_NaN(), Outcome::alone);
  EXPECT_EQ(parameters_of(model), parameters(20)) << "it begins again from where it was";
  EXPECT_EQ(parameters_of(read_by_next_round()), parameters(20));
}

}  // namespace
}  // namespace flockstep::runtime::published_model_test
