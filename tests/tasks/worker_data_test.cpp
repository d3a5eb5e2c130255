#include "tasks/worker_data.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "data_files.h"

namespace flockstep::tasks {
namespace {

TaskInputs inputs_of(int rank, int workers) {
  static const base::Settings none;
  return {.settings = none, .seed = 5, .batch = 10, .rank = rank, .workers = workers};
}

TEST(WorkerData, splitsBatchesAndEvaluationsSoThatNothingIsLeftOutOrDoubled) {
  for (const int workers : {1, 3, 4, 16})
    for (const std::size_t count : {0, 1, 5, 100}) {
      std::size_t next = 0, samples = 0;
      for (int rank = 0; rank < workers; ++rank) {
        const WorkerData worker(inputs_of(rank, workers));
        const auto [begin, size] = worker.share_of(count);
        EXPECT_EQ(begin, next);
        EXPECT_LE(size, count / static_cast<std::size_t>(workers) + 1) << "shares are even";
        next = begin + size;
        samples += worker.samples;
      }
      EXPECT_EQ(next, count);
      EXPECT_EQ(samples, 10u);
    }
}

TEST(WorkerData, ownPartsGoByTheDataThatAWorkerReads) {
  TaskInputs copied = inputs_of(0, 3);
  copied.data_rank = 2;
  const auto part = WorkerData(copied).own_part(8, "mazes");  // 3, 3 and 2
  EXPECT_EQ(part.begin, 6u);
  EXPECT_EQ(part.size, 2u);
  EXPECT_EQ(WorkerData(inputs_of(1, 3)).own_part(2, "mazes").begin, 1u);
  EXPECT_EQ(refusal([&] { WorkerData(copied).own_part(2, "mazes"); }),
            "there are fewer mazes than workers: use --shard iid");
}

TEST(WorkerData, givesAStepTheSameNumbersWheneverItIsAskedFor) {
  const auto first = [](const WorkerData& worker, std::int64_t step) {
    std::vector<float> numbers(4);
    worker.random(step).fill_uniform(numbers, 0, 1);
    return numbers;
  };
  const WorkerData worker(inputs_of(1, 4)), other(inputs_of(2, 4));
  EXPECT_EQ(first(worker, 7), first(worker, 7));
  EXPECT_NE(first(worker, 7), first(worker, 8));
  EXPECT_NE(first(worker, 7), first(other, 7));
  TaskInputs copied = inputs_of(2, 4);
  copied.data_rank = 1;  // reads what another reads
  EXPECT_EQ(first(WorkerData(copied), 7), first(worker, 7));
}

TEST(WorkerData, theLastWorkersAreTheNoisyOnes) {
  const auto is_noisy = [](int rank, int noisy) {
    return WorkerData(inputs_of(rank, 4)).is_noisy({.noisy_workers = noisy});
  };
  EXPECT_FALSE(is_noisy(3, 0));
  EXPECT_TRUE(is_noisy(3, 2));
  EXPECT_TRUE(is_noisy(2, 2));
  EXPECT_FALSE(is_noisy(1, 2));
  EXPECT_TRUE(is_noisy(0, 4));
}

TEST(WorkerData, optionsOfShardsAreReadAndBounded) {
  constexpr std::array<base::OptionSpec, 2> kOptions{{{"shard", "iid", "which data"}, kNoisyOption}};
  const auto read = [&](const base::Settings& settings) {
    return shard_options_of(base::SettingsReader("toy", kOptions, settings), 4);
  };
  EXPECT_EQ(read({}).shard, Shard::iid);
  EXPECT_EQ(read({}).noisy_workers, 0);
  EXPECT_EQ(read({{"shard", "skewed"}, {"noisy_workers", "4"}}).shard, Shard::skewed);
  EXPECT_EQ(read({{"noisy_workers", "4"}}).noisy_workers, 4);
  EXPECT_THROW(read({{"noisy_workers", "5"}}), Error);
  EXPECT_THROW(read({{"noisy_workers", "-1"}}), Error);
  EXPECT_THROW(read({{"shard", "torn"}}), Error);
}

TEST(WorkerData, countsOfAllWorkersMakeAShare) {
  EXPECT_EQ(share_of_counts(std::array{1.0, 4.0, 0.0, 0.0, 5.0, 8.0}), 0.5);
  EXPECT_TRUE(std::isnan(share_of_counts({})));
}

}  // namespace
}  // namespace flockstep::tasks
