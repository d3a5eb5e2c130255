// Workers that leave and come back, on whichever engine the command line names, with as many workers as it says.
#include <algorithm>

#include "algorithms/rounds.h"
#include "math/groups.h"

namespace flockstep::test::absence_test {
namespace {

struct Averager {
  std::string_view name;
  base::Settings settings;
};

std::vector<Averager> all_averagers() {
  return {{"wagma", {{"period", "4"}}},
          {"wagma", {{"period", "1"}}},
          {"wagma", {{"period", "4"}, {"sync", "rolling"}, {"activation", "majority"}}},
          {"wagma", {{"period", "3"}, {"merge", "additive"}, {"activation", "quorum"}}},
          {"flock", {{"period", "4"}}},
          {"flock", {{"period", "2"}, {"activation", "deadline"}, {"deadline", "5ms"}}},
          {"flock", {{"period", "5"}, {"activation", "quorum"}}},
          {"flock", {{"period", "3"}, {"overlap", "on"}}},
          {"local_sgd", {{"period", "3"}, {"overlap", "on"}}},
          {"adpsgd", {}},
          {"adpsgd", {{"partners", "fixed"}}},
          {"swarm", {{"period", "2"}}}};
}

class Absence : public testing::TestWithParam<Averager> {
 protected:
  Scene scene() const { return {.algorithm = GetParam().name, .settings = GetParam().settings}; }
};

std::string name_of(const testing::TestParamInfo<Averager>& info) {
  std::string name(info.param.name);
  for (const auto& [option, value] : info.param.settings) name += "_" + option + "_" + value;
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Absence, testing::ValuesIn(all_averagers()), name_of);

Model ones(const Scene& scene) { return Model(scene.size, 1); }

void meet(Learner& learner) { learner.context.wait(learner.context.engine().barrier(), "barrier"); }

// Everybody is back with it, and goes on from the same step.
void consolidate(Learner& learner) {
  learner.algorithm->consolidate(learner.model);
  learner.steps = learner.algorithm->departures()->next_step(learner.steps);
  expect_equal_models(learner);
  const auto steps = static_cast<double>(learner.steps);
  for (const double others : runtime::gather_doubles(learner.context, {&steps, 1})) EXPECT_EQ(others, steps);
}

TEST_P(Absence, unevenNumbersOfSteps_endTogetherAndGoOn) {
  on_every_learner(scene(), [&](Learner& learner) {
    const int rank = learner.context.rank();
    for (int epoch = 0; epoch < 3; ++epoch) {
      const std::int64_t begin = learner.steps;
      const int steps = 3 + 7 * ((rank + epoch) % learner.context.size());
      for (int step = 0; step < steps; ++step) {
        dawdle(learner, step);
        learner.take(update_of(rank, step, learner.model.size()));
      }
      learner.algorithm->departures()->leave();
      consolidate(learner);
      EXPECT_EQ(learner.steps, begin + 3 + 7 * (learner.context.size() - 1)) << "the most that anybody took";
    }
  });
}

// Whoever waited for a step of worker 0 while it is away, or, when it wants to come back, for one of the others, would
// wait for ever.
TEST_P(Absence, aLongPause_holdsUpNobody) {
  constexpr int kSteps = 60;  // many periods
  on_every_learner(scene(), [&](Learner& learner) {
    const bool pauses = learner.context.rank() == 0, has_others = learner.context.size() > 1;
    for (int step = 0; step < 3; ++step) learner.take(ones(scene()));
    if (pauses) {
      learner.algorithm->departures()->leave();
      const Model left_with = learner.model;
      meet(learner);
      EXPECT_EQ(learner.model, left_with) << "a model that is evaluated stays as it is";
      come_back(learner);
      if (has_others) {
        // How much further depends on the speed of the others: a pair of a fast and a slow worker has their mean.
        EXPECT_GT(learner.model[0], left_with[0]) << "a model of the workers that went on";
      }
      if (has_others && learner.algorithm->meetings()->synchronised + learner.algorithm->meetings()->fresh > 0) {
        EXPECT_EQ(learner.steps, 3 + kSteps);
      }
    } else {
      for (int step = 0; step < kSteps; ++step) learner.take(ones(scene()));
      meet(learner);
    }
    meet(learner);
    for (int step = 0; step < 5; ++step) learner.take(ones(scene()));
    consolidate(learner);
  });
}

TEST_P(Absence, everybodyMayPauseAtTheSameTime) {
  on_every_learner(scene(), [&](Learner& learner) {
    for (int step = 0; step < 6; ++step) learner.take(update_of(learner.context.rank(), step, learner.model.size()));
    for (int pause = 0; pause < 3; ++pause) {
      learner.algorithm->departures()->leave();
      if (pause < 2) meet(learner);
      if (learner.context.rank() % 2 == pause % 2) learner.context.engine().sleep(base::Duration(0.01));
      come_back(learner);
      meet(learner);  // those who took fewer steps must not be waited for by others who have taken theirs
    }
    learner.algorithm->departures()->leave();
    consolidate(learner);
    for (int step = 0; step < 6; ++step) learner.take(update_of(learner.context.rank(), step, learner.model.size()));
    consolidate(learner);
  });
}

// From when the agents have agreed that all others are away, and what was averaged before is merged.
TEST_P(Absence, whoIsLeftAloneTakesItsOwnStepsToTheLastBit) {
  on_every_learner(scene(), [&](Learner& learner) {
    for (int step = 0; step < 3; ++step) learner.take(update_of(learner.context.rank(), step, learner.model.size()));
    if (learner.context.rank() != learner.context.size() / 2) {
      learner.algorithm->departures()->leave();
    } else {
      int own_steps = 0;  // in a row
      for (int step = 0; own_steps < 60 && step < 1000; ++step) {
        Model expected = learner.model;
        const Model update = update_of(0, step, learner.model.size());
        for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += update[k];
        learner.take(update);
        own_steps = learner.model == expected ? own_steps + 1 : 0;
        if (own_steps == 0) learner.context.engine().sleep(base::Duration(1e-3));
      }
      EXPECT_EQ(own_steps, 60);
    }
    consolidate(learner);
  });
}

TEST_P(Absence, leavingAndComingBackUnderLoad_neverHangs) {
  constexpr int kSteps = 60;
  on_every_learner(scene(), [&](Learner& learner) {
    base::Random random(3, base::Purpose::test, static_cast<std::uint32_t>(learner.context.rank()));
    for (int step = 0; step < kSteps; ++step) {
      dawdle(learner, step);
      learner.take(update_of(learner.context.rank(), step, learner.model.size()));
      if (random.below(6) > 0) continue;
      learner.algorithm->departures()->leave();
      if (random.below(2) > 0) learner.context.engine().sleep(base::Duration(1e-3 * random.below(10)));
      come_back(learner);
    }
    learner.algorithm->departures()->leave();
    consolidate(learner);
  });
}

// ---- numbers that can be told beforehand ----

using Models = std::vector<std::vector<double>>;

// Everybody but `away` takes step `step` and averages in the groups of the schedule; `away` takes part without a step
// of its own if `takes_part`. Returns what they contributed.
Models step_together(Models& models, int step, int group_size, int away, bool takes_part) {
  const int workers = static_cast<int>(models.size());
  const std::size_t size = models[0].size();
  const auto is_in = [&](int worker) { return worker != away || takes_part; };
  for (int worker = 0; worker < workers; ++worker)
    if (worker != away)
      for (std::size_t k = 0; k < size; ++k)
        models[static_cast<std::size_t>(worker)][k] += static_cast<double>(update_of(worker, step, size)[k]);
  const Models before = models;
  for (const auto& group : math::GroupSchedule(workers, group_size).partition(step)) {
    std::vector<double> mean(size);
    const auto count = static_cast<double>(std::ranges::count_if(group, is_in));
    for (const int member : group)
      if (is_in(member))
        for (std::size_t k = 0; k < size; ++k) mean[k] += before[static_cast<std::size_t>(member)][k] / count;
    for (const int member : group)
      if (is_in(member)) models[static_cast<std::size_t>(member)] = mean;
  }
  return before;
}

class AbsenceNumbers : public testing::TestWithParam<std::tuple<std::string, int>> {};

INSTANTIATE_TEST_SUITE_P(Sizes, AbsenceNumbers,
                         testing::Combine(testing::Values("wagma", "flock"), testing::Values(2, 3, 4)));

// The one who leaves is in the groups, with its last model, up to the first round that nobody had begun: that is the
// next one, or one soon after it.
TEST_P(AbsenceNumbers, averagesAreOverThoseWhoAreThere) {
  const auto& [name, group_size] = GetParam();
  const int workers = subject().workers, away = workers / 2;
  if (group_size > workers) GTEST_SKIP() << "for more workers";
  constexpr int kBefore = 3, kAway = 7, kAfter = 3;
  const Scene scene{.algorithm = name,
                    .settings = {{"activation", "quorum"},
                                 {"quorum", std::to_string(workers)},
                                 {"period", "100"},
                                 {"group_size", std::to_string(group_size)}}};
  on_every_learner(scene, [&](Learner& learner) {
    const int rank = learner.context.rank();
    const auto mine = static_cast<std::size_t>(rank);
    const bool is_away = rank == away;
    for (int step = 0; step < kBefore; ++step) learner.take(update_of(rank, step, scene.size));
    meet(learner);
    if (is_away) learner.algorithm->departures()->leave();
    for (int step = kBefore; step < kBefore + kAway; ++step)
      if (!is_away) learner.take(update_of(rank, step, scene.size));
    meet(learner);
    const Model mine_then = learner.model;
    if (is_away) {
      come_back(learner);
      EXPECT_EQ(learner.steps, kBefore + kAway);
    }
    meet(learner);
    for (int step = kBefore + kAway; step < kBefore + kAway + kAfter; ++step)
      learner.take(update_of(rank, step, scene.size));
    // What a wagma worker has published, for those who ask while it computes, is its model before the last average.
    const auto shown = [&, publishes = name == "wagma"](const Models& contributions, const Models& models, int worker) {
      return (publishes ? contributions : models)[static_cast<std::size_t>(worker)];
    };
    double nearest_then = 1e9, nearest = 1e9;
    for (const int late : {0, 1, 2, 3}) {
      Models models(static_cast<std::size_t>(workers), std::vector<double>(scene.size)), contributions;
      for (int step = 0; step < kBefore; ++step) contributions = step_together(models, step, group_size, -1, true);
      auto& of_the_away = models[static_cast<std::size_t>(away)];
      of_the_away = shown(contributions, models, away);
      for (int step = kBefore; step < kBefore + kAway; ++step)
        contributions = step_together(models, step, group_size, away, step < kBefore + late);
      nearest_then = std::min(nearest_then, distance(mine_then, models[mine]));
      of_the_away = shown(contributions, models, (away + 1) % workers);
      for (int step = kBefore + kAway; step < kBefore + kAway + kAfter; ++step)
        step_together(models, step, group_size, -1, true);
      nearest = std::min(nearest, distance(learner.model, models[mine]));
    }
    EXPECT_LT(nearest, 1e-5);
    if (!is_away) {
      EXPECT_LT(nearest_then, 1e-5);
    }
    consolidate(learner);
  });
}

}  // namespace
}  // namespace flockstep::test::absence_test
