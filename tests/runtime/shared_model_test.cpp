// The additive merge by itself: made-up sequences of what an agent calls, on one worker, without any transfer. The
// schedule explorer has the other sequences.
#include "runtime/rounds/shared_model.h"

#include <cmath>
#include <limits>

#include "runtime/one_round.h"

namespace flockstep::runtime::shared_model_test {
namespace {

using Model = std::vector<float>;

constexpr std::size_t kParameters = 5, kSize = 7;  // two running statistics

Model mixed(float parameters, float statistics) {
  Model model(kSize, parameters);
  std::fill(model.begin() + kParameters, model.end(), statistics);
  return model;
}
Model parameters(float value) { return Model(kParameters, value); }

// One worker that started from tens.
class SharedModelTest : public OneWorker {
 protected:
  explicit SharedModelTest(math::UpdateGuard* guard = nullptr)
      : shared_(context_, kSize, {guard, kSize - kParameters}) {
    shared_.reset(model_);
  }

  void update(float by) {
    for (float& value : model_) value += by;
    shared_.arrive(model_);
  }
  void proceed() { shared_.proceed(model_); }
  OneRound begin_round(bool is_fresh = false) { return {shared_, kParameters, is_fresh}; }

  SharedModel shared_;
  Model model_ = mixed(10, 10);
};

TEST_F(SharedModelTest, freshRound_movesItToTheAverage) {
  update(2);
  OneRound round = begin_round(true);
  EXPECT_EQ(round.contribution(), parameters(12));
  round.end_with(parameters(9), 3);
  proceed();
  EXPECT_EQ(model_, mixed(9, 12));
}

TEST_F(SharedModelTest, updatesThatLandWhileARoundIsUnderWay_allCount) {
  OneRound round = begin_round();
  update(2);
  proceed();
  EXPECT_EQ(model_, mixed(12, 12)) << "the round has not moved it yet";
  update(1);
  EXPECT_EQ(round.contribution(), parameters(10)) << "what was taken stays";
  round.end_with(parameters(7), 3);
  proceed();
  EXPECT_EQ(model_, mixed(10, 13)) << "10 + 2 + 1, and 7 - 10";
  update(4);
  proceed();
  EXPECT_EQ(model_, mixed(14, 17));
}

TEST_F(SharedModelTest, reset_isWhereEverythingBegins) {
  update(2);
  model_ = mixed(1, 1);
  shared_.reset(model_);
  update(2);
  proceed();
  EXPECT_EQ(model_, mixed(3, 3));
}

// The others move by one in every parameter.
class GuardedSharedModelTest : public SharedModelTest {
 protected:
  GuardedSharedModelTest() : SharedModelTest(&guard_) { guard_.hear(1, {.norm = std::sqrt(5.0f)}); }

  void expect_parameters_near(float value) const {
    for (std::size_t k = 0; k < kParameters; ++k) EXPECT_NEAR(model_[k], value, 1e-5);
  }
};

TEST_F(GuardedSharedModelTest, anUpdateLikeThoseOfOthersIsAddedAsEver) {
  update(2);
  proceed();
  EXPECT_EQ(model_, mixed(12, 12));
  EXPECT_EQ(guard_.counts().clipped, 0);
  EXPECT_FLOAT_EQ(guard_.news().norm, std::sqrt(20.0f));
}

TEST_F(GuardedSharedModelTest, anUpdateThatIsTooLongIsCutToTwiceTheOthers) {
  update(8);
  proceed();
  expect_parameters_near(12);
  EXPECT_EQ(model_.back(), 18) << "running statistics are not cut";
  for (float& value : model_) value -= 8;
  shared_.rest(model_);
  expect_parameters_near(10);  // also of one that does not wait
}

TEST_F(GuardedSharedModelTest, anUpdateThatIsNotFiniteMovesNothing) {
  for (const std::size_t place : {std::size_t{0}, kParameters - 1, kSize - 1}) {
    SCOPED_TRACE(place);
    model_[place] = std::numeric_limits<float>::quiet_NaN();
    update(2);
    EXPECT_EQ(OneRound(shared_, kSize, true).contribution(), mixed(10, 10));
    shared_.abandon();
    proceed();
    EXPECT_EQ(model_, mixed(10, 10));
  }
  EXPECT_EQ(guard_.counts().non_finite, 3);
}

}  // namespace
}  // namespace flockstep::runtime::shared_model_test
