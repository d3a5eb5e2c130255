// What tasks share: lines of files, sizes, and workers' shares of data.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "data_files.h"
#include "support/refusal.h"
#include "tasks/data_file.h"
#include "tasks/sizes.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks::shared_parts_test {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_line(text));
  return lines;
}

TEST(DataFile, linesEndAsOnAnySystemAndTheLastNeedNot) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("a"), Lines{"a"});
  EXPECT_EQ(lines_of("a\nb\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\nb"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r"), (Lines{"a", "b"}));  // cut within its end
  EXPECT_EQ(lines_of("\n\r\n\n"), (Lines{"", "", ""}));
  EXPECT_EQ(lines_of("a\rb\r\r\n"), Lines{"a\rb\r"});  // only the end is taken off
  EXPECT_EQ(lines_of(std::string_view("\0\n\0", 3)), (Lines{std::string(1, '\0'), std::string(1, '\0')}));
}

TEST(DataFile, settingsThatNameNoDataHaveNoFiles) {
  using Paths = std::vector<std::filesystem::path>;
  const auto files_of = [](const std::string& data) { return Paths{data + "/a", data + "/b"}; };
  EXPECT_EQ(data_files({}, files_of), Paths{});
  EXPECT_EQ(data_files({{"data", ""}, {"size", "tiny"}}, files_of), Paths{});
  EXPECT_EQ(data_files({{"data", "here"}}, files_of), (Paths{"here/a", "here/b"}));
}

constexpr std::array<base::OptionSpec, 3> kOptions{{
    kSizeOption,
    {"width", kBySize, "of the toy"},
    {"height", "3", "of the toy, whatever its size"},
}};
constexpr std::array<SizeSetting, 1> kTiny{{{"width", "4"}}}, kPaper{{{"width", "400"}}};
constexpr std::array<Size, 2> kSizes{
    {{"tiny", {.steps = 10, .batch_per_worker = 1}, kTiny}, {"paper", {.steps = 1000, .batch_per_worker = 8}, kPaper}}};

TEST(Sizes, fillInWhatIsNotGiven) {
  EXPECT_EQ(with_size("toy", kOptions, kSizes, {}), (base::Settings{{"width", "4"}}));
  EXPECT_EQ(with_size("toy", kOptions, kSizes, {{"size", "paper"}}),
            (base::Settings{{"size", "paper"}, {"width", "400"}}));
  EXPECT_EQ(with_size("toy", kOptions, kSizes, {{"size", "paper"}, {"width", "7"}, {"height", "5"}}),
            (base::Settings{{"size", "paper"}, {"width", "7"}, {"height", "5"}}));
  EXPECT_EQ(size_of("toy", kOptions, kSizes, {}).defaults.steps, 10);
  EXPECT_EQ(size_of("toy", kOptions, kSizes, {{"size", "paper"}}).defaults.batch_per_worker, 8);
  EXPECT_EQ(test::refusal([] {
              size_of("toy", kOptions, kSizes, {{"size", "huge"}});
            }),
            "--toy.size takes tiny or paper, not 'huge'");
}

TEST(Sizes, ofATaskAreListedAndNameEveryOptionThatIsLeftToThem) {
  for (const TaskRow& row : tasks()) {
    const bool has_sizes = std::ranges::find(row.options, "size", &base::OptionSpec::name) != row.options.end();
    EXPECT_EQ(has_sizes, !row.sizes.empty()) << row.name;
    for (const Size& size : row.sizes)
      for (const base::OptionSpec& option : row.options) {
        const bool is_set = std::ranges::find(size.settings, option.name, &SizeSetting::first) != size.settings.end();
        EXPECT_EQ(is_set, option.default_value == kBySize) << row.name << " " << size.name << " " << option.name;
      }
  }
}

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
  for (const auto& [rank, noisy, expected] :
       {std::tuple{3, 0, false}, {3, 2, true}, {2, 2, true}, {1, 2, false}, {0, 4, true}})
    EXPECT_EQ(WorkerData(inputs_of(rank, 4)).is_noisy({.noisy_workers = noisy}), expected) << rank << " " << noisy;
}

TEST(WorkerData, optionsOfShardsAreReadAndBounded) {
  constexpr std::array<base::OptionSpec, 2> kOptions{{{"shard", "iid", "which data"}, kNoisyOption}};
  const auto read = [&](const base::Settings& settings) {
    return shard_options_of(base::SettingsReader("toy", kOptions, settings), 4);
  };
  EXPECT_EQ(read({}).shard, Shard::iid);
  EXPECT_EQ(read({{"shard", "skewed"}}).shard, Shard::skewed);
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
}  // namespace flockstep::tasks::shared_parts_test
