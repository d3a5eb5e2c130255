// diloco on whichever engine the command line names, against the same in double.
#include <gtest/gtest.h>

#include "algorithms/diloco_oracle.h"
#include "algorithms/rounds.h"

namespace flockstep::test::diloco_test {
namespace {

constexpr int kSteps = 26;

std::vector<Model> updates_of_all(int step, std::size_t size) {
  std::vector<Model> updates;
  for (int rank = 0; rank < subject().workers; ++rank) updates.push_back(update_of(rank, step, size));
  return updates;
}

// Somebody always is.
std::vector<bool> present_in(int step) {
  std::vector<bool> present;
  for (int rank = 0; rank < subject().workers; ++rank) present.push_back(rank == 0 || (step / 3 + rank) % 4 != 1);
  return present;
}

class Diloco : public testing::TestWithParam<DilocoScene> {};

TEST_P(Diloco, modelsAreThoseOfTheReferenceInDouble) {
  const DilocoScene& diloco = GetParam();
  on_every_learner(diloco.scene(subject().workers), [&](Learner& learner) {
    DilocoOracle oracle(diloco, subject().workers);
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) {
      oracle.step(step, updates_of_all(step, diloco.size));
      learner.take(update_of(rank, step, diloco.size));
      ASSERT_LT(distance(learner.model, oracle.of(rank)), 2e-5) << "step " << step;
      const bool is_outer_step = (step + 1) % diloco.period == 0 && diloco.fragments == 1;
      if (is_outer_step && diloco.is_in_place()) {
        for (const Model& model : models_of_all(learner)) ASSERT_EQ(model, learner.model) << "step " << step;
      }
    }
    learner.algorithm->consolidate(learner.model);
    expect_equal_models(learner);
  });
}

TEST_P(Diloco, whoIsNotThereCountsNothingAndTakesTheOuterModel) {
  const DilocoScene& diloco = GetParam();
  if (diloco.rule != "mean") GTEST_SKIP() << "the reference's rules know everybody";
  on_every_learner(diloco.scene(subject().workers), [&](Learner& learner) {
    DilocoOracle oracle(diloco, subject().workers);
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<bool> present = present_in(step);
      oracle.step(step, updates_of_all(step, diloco.size), present);
      learner.algorithm->attend(present);
      learner.take(present[static_cast<std::size_t>(rank)] ? update_of(rank, step, diloco.size) : Model(diloco.size));
      ASSERT_LT(distance(learner.model, oracle.of(rank)), 2e-5) << "step " << step;
    }
    learner.algorithm->consolidate(learner.model);
    expect_equal_models(learner);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Every, Diloco,
    testing::Values(DilocoScene{}, DilocoScene{.period = 1}, DilocoScene{.period = 5, .rate = 0.3, .momentum = 0},
                    DilocoScene{.rule = "normalized_mean"}, DilocoScene{.wire = "bfloat16", .rate = 1, .momentum = 0},
                    DilocoScene{.rule = "direction_consensus"}, DilocoScene{.rule = "geometric_median"},
                    DilocoScene{.rule = "adasum"}, DilocoScene{.wire = "bfloat16", .size = 1500, .bucket_floats = 700},
                    DilocoScene{.wire = "int8", .size = 1500, .bucket_floats = 700},
                    DilocoScene{.wire = "int8", .period = 1},
                    DilocoScene{.rule = "direction_consensus", .wire = "int8", .size = 1500, .bucket_floats = 700},
                    DilocoScene{.period = 7, .fragments = 3}, DilocoScene{.period = 3, .fragments = 3},
                    DilocoScene{.delay = 3}, DilocoScene{.period = 9, .fragments = 2, .delay = 2},
                    DilocoScene{
                        .wire = "int8", .period = 9, .fragments = 3, .delay = 1, .size = 1500, .bucket_floats = 200},
                    DilocoScene{.alpha = 0.5}, DilocoScene{.period = 8, .fragments = 2, .delay = 2, .alpha = 0.25},
                    DilocoScene{.rule = "direction_consensus", .period = 8, .fragments = 2, .delay = 3, .alpha = 0.5}));

}  // namespace
}  // namespace flockstep::test::diloco_test
