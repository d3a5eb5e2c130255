// What the training loop relies on of every task with a network.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "task_case.h"
#include "tasks/torch/detection.h"
#include "tasks/torch/navigation.h"
#include "tasks/torch/recommendation.h"
#include "tasks/torch/translation.h"
#include "tasks/torch/vision.h"

namespace flockstep::tasks::all_tasks_test {
namespace {

struct Setting {
  const char* name;
  TaskCase::Make* make;
  base::Settings settings;
};

class AllTasks : public testing::TestWithParam<Setting> {
 protected:
  static TaskCase worker(int rank, int workers = 3) {
    return TaskCase(GetParam().make, GetParam().settings, {.rank = rank, .workers = workers});
  }
};

// For the second of two workers as for the first.
TEST_P(AllTasks, reportRangesOnceWhenFinalAndInTheSameOrderEverywhere) {
  TaskCase first = worker(0), second = worker(1);
  first.compute(0);
  const auto order = first.ranges;
  EXPECT_EQ(first.seen, first.gradient);
  EXPECT_EQ(order.size(), first.task->tensors().size());
  EXPECT_LT(order.front().first, order.back().first);  // the last layer's come first, in time as in the span
  std::vector<int> times(first.gradient.size());
  for (const auto& [begin, size] : order)
    for (std::size_t i = begin; i < begin + size; ++i) ++times[i];
  EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  for (std::int64_t step = 1; step < 4; ++step) {
    first.compute(step);
    second.compute(step);
    EXPECT_EQ(first.ranges, order);
    EXPECT_EQ(second.ranges, order);
    EXPECT_EQ(second.seen, second.gradient);
  }
}

TEST_P(AllTasks, startAlikeReadDifferentDataAndShareEvaluations) {
  TaskCase first = worker(0), second = worker(1);
  EXPECT_EQ(first.model, second.model);
  EXPECT_NE(first.compute(0), second.compute(0));
  EXPECT_EQ(first.task->samples_per_step(), 7);
  EXPECT_EQ(worker(2).task->samples_per_step(), 6);
  EXPECT_TRUE(first.task->has_validation());
  std::vector<std::vector<double>> alone;
  for (const train::Split split : {train::Split::test, train::Split::validation}) {
    std::vector<double> records;
    for (int rank = 0; rank < 3; ++rank) {
      const auto share = worker(rank).task->evaluate(first.model, split);
      EXPECT_FALSE(share.empty());
      records.insert(records.end(), share.begin(), share.end());
    }
    alone.push_back(worker(0, 1).task->evaluate(first.model, split));
    EXPECT_NEAR(first.task->quality(records), first.task->quality(alone.back()), 1e-6);
  }
  EXPECT_NE(alone[0], alone[1]);
}

INSTANTIATE_TEST_SUITE_P(
    Each, AllTasks,
    testing::Values(
        Setting{"vision", make_vision, {}},
        Setting{"detection",
                make_detection,
                {{"side", "24"}, {"width", "4"}, {"channels", "4"}, {"layers", "1"}, {"extra_levels", "1"}}},
        Setting{"recommendation", make_recommendation, {}},
        Setting{"translation",
                make_translation,
                {{"width", "8"}, {"heads", "2"}, {"inner", "12"}, {"test_sentences", "20"}, {"dropout", "0.1"}}},
        Setting{"translation_with_a_beam",
                make_translation,
                {{"width", "8"}, {"heads", "2"}, {"inner", "12"}, {"test_sentences", "20"}, {"beam", "3"}}},
        Setting{"navigation", make_navigation, {{"hidden", "8"}, {"view", "3"}, {"limit", "12"}, {"layers", "2"}}},
        Setting{"navigation_by_resnet",
                make_navigation,
                {{"hidden", "8"}, {"encoder", "resnet"}, {"width", "4"}, {"image", "32"}, {"limit", "4"}}}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace flockstep::tasks::all_tasks_test
