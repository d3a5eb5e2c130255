// Algorithms that average models in lockstep, where some workers are not there in some steps, against the same in
// double.
#include <gtest/gtest.h>

#include "math/push_sum.h"
#include "quadratic.h"

namespace flockstep::algorithms::attendance_test {
namespace {

using test::distance;
using test::Learner;
using test::Model;
using test::run_learners;
using test::Scene;
using test::target_of;
using Mask = std::vector<bool>;

constexpr int kSteps = 40;

Model update_of(int rank, int step, std::size_t size) { return target_of(rank + 64 * step, size); }

// Who is there: changes every few steps, some are away for long, and somebody always is.
Mask present_in(int step, int workers) {
  Mask present;
  for (int rank = 0; rank < workers; ++rank) {
    base::Random random(5, base::Purpose::test, static_cast<std::uint32_t>(rank),
                        static_cast<std::uint32_t>(rank % 3 == 2 ? step / 16 : step / 3));
    present.push_back(random.below(3) > 0);
  }
  if (std::ranges::find(present, true) == present.end()) present[static_cast<std::size_t>(step % workers)] = true;
  return present;
}

// All workers at once.
class Oracle {
 public:
  explicit Oracle(const Scene& scene)
      : scene_(scene),
        period_(number("period")),
        neighbours_(number("neighbours")),
        models_(static_cast<std::size_t>(scene.workers), std::vector<double>(scene.size)),
        missed_(models_.size()) {}

  void step(int step, const Mask& present) {
    std::vector<int> ranks;
    for (int rank = 0; rank < scene_.workers; ++rank)
      if (present[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
    begun_ = models_;
    for (const int rank : ranks)
      for (std::size_t k = 0; k < scene_.size; ++k)
        of(rank)[k] += static_cast<double>(update_of(rank, step, scene_.size)[k]);
    if (scene_.algorithm == "local_sgd") {
      if ((step + 1) % period_ == 0) average(present);
    } else {
      for (const int rank : ranks)
        if (missed_[static_cast<std::size_t>(rank)] > 0) take_over(rank);
      mix(ranks, step);
    }
    for (int rank = 0; rank < scene_.workers; ++rank) {
      int& missed = missed_[static_cast<std::size_t>(rank)];
      missed = present[static_cast<std::size_t>(rank)] ? 0 : missed + 1;
    }
    ++since_average_;
    if (scene_.algorithm == "local_sgd" && (step + 1) % period_ == 0) since_average_ = 0;
  }

  void consolidate() {
    const int steps = scene_.algorithm == "local_sgd" ? since_average_ : 10;
    Mask counted;
    for (const int missed : missed_) counted.push_back(missed < steps);
    average(std::ranges::count(counted, true) > 0 ? counted : Mask(counted.size(), true));
  }

  const std::vector<double>& of(int rank) const { return models_[static_cast<std::size_t>(rank)]; }

 private:
  int number(const std::string& option) const {
    return scene_.settings.contains(option) ? std::stoi(scene_.settings.at(option)) : 1;
  }
  std::vector<double>& of(int rank) { return models_[static_cast<std::size_t>(rank)]; }

  void average(const Mask& counted) {
    std::vector<double> mean(scene_.size);
    for (std::size_t rank = 0; rank < models_.size(); ++rank)
      for (std::size_t k = 0; counted[rank] && k < scene_.size; ++k)
        mean[k] += models_[rank][k] / static_cast<double>(std::ranges::count(counted, true));
    std::ranges::fill(models_, mean);
  }

  void take_over(int rank) {
    for (int ahead = 1; ahead < scene_.workers; ++ahead) {
      const int other = (rank + ahead) % scene_.workers;
      if (missed_[static_cast<std::size_t>(other)] > 0) continue;
      taken_.emplace_back(rank, other);
      return;
    }
  }

  void mix(const std::vector<int>& ranks, int step) {
    const auto updated = models_, begun = begun_;
    for (const auto& [rank, other] : taken_) {
      of(rank) = updated[static_cast<std::size_t>(other)];
      begun_[static_cast<std::size_t>(rank)] = begun[static_cast<std::size_t>(other)];
    }
    taken_.clear();
    const bool combines_first = scene_.settings.contains("order") && scene_.settings.at("order") == "combine_first";
    const auto before = combines_first ? begun_ : models_;
    const int count = static_cast<int>(ranks.size());
    for (int place = 0; place < count; ++place) {
      std::vector<int> from;
      if (scene_.algorithm == "sgp")
        from = math::in_neighbours(place, count, neighbours_, step);
      else if (count == 2)
        from = {1 - place};
      else if (count > 2)
        from = {(place + count - 1) % count, (place + 1) % count};
      from.push_back(place);
      const auto rank = static_cast<std::size_t>(ranks[static_cast<std::size_t>(place)]);
      for (std::size_t k = 0; k < scene_.size; ++k) {
        double sum = 0;
        for (const int other : from) sum += before[static_cast<std::size_t>(ranks[static_cast<std::size_t>(other)])][k];
        const double update = models_[rank][k] - before[rank][k];  // nothing where it is in the sum
        models_[rank][k] = sum / static_cast<double>(from.size()) + update;
      }
    }
  }

  const Scene& scene_;
  int period_, neighbours_;
  std::vector<std::vector<double>> models_, begun_;  // begun_: before the updates of this step
  std::vector<int> missed_;
  int since_average_ = 0;
  std::vector<std::pair<int, int>> taken_;  // by whom, from whom
};

using Averager = std::pair<std::string_view, base::Settings>;

class Attendance : public testing::TestWithParam<std::tuple<Averager, int>> {};

INSTANTIATE_TEST_SUITE_P(
    All, Attendance,
    testing::Combine(testing::Values(Averager{"local_sgd", {{"period", "4"}}}, Averager{"local_sgd", {{"period", "1"}}},
                                     Averager{"dpsgd", {}}, Averager{"dpsgd", {{"order", "combine_first"}}},
                                     Averager{"sgp", {}}, Averager{"sgp", {{"neighbours", "2"}}}),
                     testing::Range(2, 8)));

TEST_P(Attendance, modelsAreThoseOfTheSameAveragesOverThePresentWorkers) {
  const auto& [averager, workers] = GetParam();
  Scene scene{.algorithm = averager.first, .workers = workers, .settings = averager.second};
  if (workers == 2 && scene.settings.contains("neighbours")) GTEST_SKIP() << "two workers have one hop";
  scene.settings["guard"] = "off";  // updates are made up
  for (const auto& [until, all_are_there] :
       {std::pair{kSteps, false}, {kSteps - 7, false}, {5, false}, {kSteps, true}}) {
    const auto present_in_step = [&, all = all_are_there](int step) {
      return all ? Mask(static_cast<std::size_t>(workers), true) : present_in(step, workers);
    };
    Oracle oracle(scene);
    std::vector<std::vector<std::vector<double>>> expected;  // per step
    for (int step = 0; step < until; ++step) {
      oracle.step(step, present_in_step(step));
      expected.emplace_back();
      for (int rank = 0; rank < workers; ++rank) expected.back().push_back(std::as_const(oracle).of(rank));
    }
    oracle.consolidate();
    run_learners(scene, [&](Learner& learner) {
      const auto rank = static_cast<std::size_t>(learner.context.rank());
      for (int step = 0; step < until; ++step) {
        const Mask present = present_in_step(step);
        learner.algorithm->attend(present);
        learner.take(present[rank] ? update_of(learner.context.rank(), step, scene.size) : Model(scene.size));
        ASSERT_LT(distance(learner.model, expected[static_cast<std::size_t>(step)][rank]), 2e-5) << "step " << step;
      }
      learner.algorithm->consolidate(learner.model);
      EXPECT_LT(distance(learner.model, std::as_const(oracle).of(0)), 2e-5);
      learner.algorithm->attend({});
      learner.take(Model(scene.size));
      EXPECT_LT(distance(learner.model, std::as_const(oracle).of(0)), 2e-5) << "nobody's model is old any more";
    });
  }
}

TEST(AttendanceOnce, whoHasLongBeenAwayDoesNotCountWhenConsolidated) {
  for (const std::string_view name : {"dpsgd", "sgp"}) {
    const auto models = run_learners({.algorithm = name, .workers = 3}, [](Learner& learner) {
      learner.algorithm->attend({true, true, false});
      for (int step = 0; step < 12; ++step) learner.take(Model(learner.model.size(), learner.context.rank() < 2));
      learner.algorithm->consolidate(learner.model);
    });
    for (const Model& model : models) EXPECT_EQ(model, Model(model.size(), 12));
  }
}

TEST(AttendanceOnce, postLocalSgd_leavesWhoIsNotThereOutOfBothPhases) {
  const Scene scene{.algorithm = "post_local_sgd",
                    .workers = 3,
                    .settings = {{"switch_after", "2"}, {"period", "2"}, {"guard", "off"}}};
  const auto models = run_learners(scene, [](Learner& learner) {
    EXPECT_TRUE(learner.algorithm->gradients_are_equal());
    learner.algorithm->attend({true, true, false});
    const auto rank = static_cast<float>(learner.context.rank());
    for (int step = 0; step < 2; ++step) {
      Model gradient(learner.model.size(), rank == 2 ? 100 : rank);  // the others' mean is a half
      learner.algorithm->finish_gradient(gradient, 1);
      for (std::size_t k = 0; k < gradient.size(); ++k) learner.model[k] += gradient[k];
      learner.algorithm->after_update(learner.steps++, learner.model);
    }
    EXPECT_EQ(learner.model, Model(learner.model.size(), 1));
    EXPECT_FALSE(learner.algorithm->gradients_are_equal());
    for (int step = 0; step < 2; ++step) learner.take(Model(learner.model.size(), rank < 2 ? rank : 0));
  });
  for (const Model& model : models) EXPECT_EQ(model, Model(model.size(), 2));  // 1 + (0 + 2) / 2
}

TEST(AttendanceOnce, workersThatWaitForEachOtherCannotLeaveByThemselves) {
  for (const std::string_view name : {"mean", "local_sgd", "dpsgd", "sgp", "post_local_sgd", "eager_solo"})
    run_learners({.algorithm = name, .workers = 2},
                 [&](Learner& learner) { EXPECT_EQ(learner.algorithm->departures(), nullptr) << name; });
}

}  // namespace
}  // namespace flockstep::algorithms::attendance_test
