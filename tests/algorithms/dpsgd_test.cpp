// Both orders of dpsgd against the recursion with the whole mixing matrix, in double.
#include <gtest/gtest.h>

#include "quadratic.h"

namespace flockstep::algorithms::dpsgd_test {
namespace {

using test::distance;
using test::Learner;
using test::Model;
using test::run_learners;
using test::Scene;
using test::target_of;

using Matrix = std::vector<std::vector<double>>;

constexpr double kRate = 0.15;

Matrix mixing_of(int workers) {
  const auto count = static_cast<std::size_t>(workers);
  Matrix mixing(count, std::vector<double>(count));
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t apart = (j + count - i) % count;
      if (apart <= 1 || apart == count - 1) mixing[i][j] = 1.0 / std::min(workers, 3);
    }
  return mixing;
}

Matrix product(const Matrix& x, const Matrix& y) {
  Matrix result(x.size(), std::vector<double>(y.front().size()));
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j)
      for (std::size_t k = 0; k < result[i].size(); ++k) result[i][k] += x[i][j] * y[j][k];
  return result;
}

// -rate times the gradients of all workers at their models.
Matrix updates_at(const Matrix& models) {
  Matrix updates = models;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const Model target = target_of(static_cast<int>(i), models[i].size());
    for (std::size_t k = 0; k < target.size(); ++k) updates[i][k] = -kRate * (models[i][k] - target[k]);
  }
  return updates;
}

Matrix sum(Matrix x, const Matrix& y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t k = 0; k < x[i].size(); ++k) x[i][k] += y[i][k];
  return x;
}

TEST(Dpsgd, followsTheRecursionOfItsOrder) {
  for (int workers = 2; workers <= 9; ++workers)
    for (const std::string order : {"adapt_first", "combine_first"})
      for (const std::string guard : {"on", "off"}) {
        const Scene scene{"dpsgd", workers, {{"order", order}, {"guard", guard}}};
        const Matrix mixing = mixing_of(workers);
        Matrix models(static_cast<std::size_t>(workers), std::vector<double>(scene.size));
        std::vector<Matrix> expected;  // after each step
        for (int step = 0; step < 20; ++step) {
          const Matrix updates = updates_at(models);
          models =
              order == "adapt_first" ? product(mixing, sum(models, updates)) : sum(product(mixing, models), updates);
          expected.push_back(models);
        }
        run_learners(scene, [&](Learner& learner) {
          const auto rank = static_cast<std::size_t>(learner.context.rank());
          for (std::size_t step = 0; step < expected.size(); ++step) {
            learner.step(static_cast<float>(kRate));
            EXPECT_LT(distance(learner.model, expected[step][rank]), 1e-5)
                << order << ", guard " << guard << ", P = " << workers << ", step " << step;
          }
        });
      }
}

TEST(Dpsgd, thatCombinesFirst_goesOnFromTheAverageWhenConsolidated) {
  const Scene scene{"dpsgd", 4, {{"order", "combine_first"}}};
  const auto models = run_learners(scene, [](Learner& learner) {
    for (int step = 0; step < 5; ++step) learner.step(0.2f);
    learner.algorithm->consolidate(learner.model);
    const Model average = learner.model;
    learner.step(0);
    EXPECT_LT(distance(learner.model, {average.begin(), average.end()}), 1e-6);
  });
  EXPECT_LT(test::disagreement(models), 1e-6);
}

// A worker whose update is not finite adds nothing, and its model from before the update is averaged.
TEST(Dpsgd, thatCombinesFirst_leavesOutUpdatesThatAreNotFinite) {
  const Scene scene{"dpsgd", 3, {{"order", "combine_first"}}};
  const auto models = run_learners(scene, [](Learner& learner) {
    for (int step = 0; step < 3; ++step) learner.take(Model(learner.model.size(), 1));
    const bool is_broken = learner.context.rank() == 1;
    learner.take(Model(learner.model.size(), is_broken ? std::nanf("") : 1));
  });
  for (std::size_t rank = 0; rank < models.size(); ++rank)
    EXPECT_LT(distance(models[rank], std::vector<double>(scene.size, rank == 1 ? 3 : 4)), 1e-5);
}

}  // namespace
}  // namespace flockstep::algorithms::dpsgd_test
