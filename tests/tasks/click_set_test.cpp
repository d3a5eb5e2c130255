#include "tasks/recommendation/click_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "click_files.h"
#include "data_files.h"
#include "tasks/recommendation/generated_clicks.h"

namespace flockstep::tasks::click_set_test {
namespace {

const ClickShape kShape = criteo_shape(50);
const base::Settings kNone;

WorkerData worker(int rank, int workers = 3) { return WorkerData(TaskInputs{kNone, 7, 20, rank, workers}); }

TEST(ClickSet, theLastSeventhOfALogIsForValidationAndThenForTheTest) {
  const test::TemporaryFolder files;
  const std::string text = criteo_text(100), path = files.write("log.tsv", text);
  const auto set = load_click_set(path, kShape);
  EXPECT_EQ(set->train.count(), 86u);
  EXPECT_EQ(set->validation.count(), 7u);
  EXPECT_EQ(set->test.count(), 7u);
  EXPECT_FALSE(set->is_generated);
  Clicks together = set->train;
  together.append(set->validation, 0, 7, kShape);
  together.append(set->test, 0, 7, kShape);
  const Clicks all = read_criteo(text, "the log", kShape);
  EXPECT_EQ(together.ids, all.ids);
  EXPECT_EQ(together.numbers, all.numbers);
  EXPECT_EQ(together.labels, all.labels);
}

TEST(ClickSet, aFolderStandsForItsTrainTxt) {
  const test::TemporaryFolder files;
  EXPECT_EQ(refusal([&] { load_click_set(files.string(), kShape); }), files.string() + "/train.txt is not there");
  files.write("train.txt", criteo_text(60));
  EXPECT_EQ(load_click_set(files.string(), kShape)->train.count(), 52u);
  EXPECT_EQ(click_file(files.string()).string(), files.string() + "/train.txt");
  EXPECT_EQ(click_file("some/log.tsv").string(), "some/log.tsv");
}

TEST(ClickSet, workersOfAProcessShareIt) {
  const test::TemporaryFolder files;
  const std::string path = files.write("log.tsv", criteo_text(60));
  const auto set = load_click_set(path, kShape);
  EXPECT_EQ(load_click_set(path, kShape), set);
  EXPECT_NE(load_click_set(path, criteo_shape(51)), set);
}

TEST(ClickSet, filesThatCannotServeAreRefused) {
  const test::TemporaryFolder files;
  const auto refusal_of = [&](const std::string& text) {
    const std::string path = files.write("log.tsv", text);
    const std::string said = refusal([&] { load_click_set(path, kShape); });
    return said.starts_with(path) ? said.substr(path.size()) : said;
  };
  EXPECT_EQ(refusal_of(""), " is empty");
  EXPECT_EQ(refusal_of(criteo_text(1)),
            " has 0 lines for validation, and not both labels among them: it needs more lines");
  EXPECT_EQ(refusal_of(criteo_text(27)),
            " has 1 lines for validation, and not both labels among them: it needs more lines");
  std::string ones;
  for (int i = 0; i < 100; ++i) ones += "1" + std::string(39, '\t') + "\n";
  EXPECT_EQ(refusal_of(ones), " has 7 lines for validation, and not both labels among them: it needs more lines");
  EXPECT_EQ(refusal_of(criteo_text(100).substr(0, 2000)).substr(0, 51),
            " is not a click log of Criteo, or is damaged: line ");
  EXPECT_EQ(refusal([&] { load_click_set(files.string() + "/none", kShape); }), files.string() + "/none is not there");
}

TEST(ClickSampler, drawsFromAllTrainingClicksOfAFile) {
  const test::TemporaryFolder files;
  const auto set = load_click_set(files.write("log.tsv", criteo_text(60)), kShape);
  const ClickSampler sampler(set, {}, worker(0));
  const Clicks drawn = sampler.draw(1000, worker(0).random(0));
  EXPECT_EQ(drawn.count(), 1000u);
  std::map<std::vector<std::uint32_t>, int> seen;
  for (std::size_t i = 0; i < drawn.count(); ++i) {
    const auto ids = drawn.ids_of(i, kShape);
    ++seen[{ids.begin(), ids.end()}];
  }
  EXPECT_EQ(seen.size(), 52u);
  for (std::size_t i = 0; i < set->test.count(); ++i) {
    const auto ids = set->test.ids_of(i, kShape);
    EXPECT_FALSE(seen.contains({ids.begin(), ids.end()}));
  }
  EXPECT_EQ(sampler.draw(9, worker(0).random(4)).ids, sampler.draw(9, worker(0).random(4)).ids);
  EXPECT_NE(sampler.draw(9, worker(0).random(4)).ids, sampler.draw(9, worker(1).random(4)).ids);
}

TEST(ClickSampler, skewedWorkersHaveTheirOwnFirstCategories) {
  const test::TemporaryFolder files;
  const auto read = load_click_set(files.write("log.tsv", criteo_text(60)), kShape),
             generated = load_click_set("", kShape);
  EXPECT_TRUE(generated->is_generated);
  for (const auto& set : {read, generated})
    for (int rank = 0; rank < 3; ++rank) {
      const ClickSampler sampler(set, {.shard = Shard::skewed}, worker(rank));
      const Clicks drawn = sampler.draw(200, worker(rank).random(0));
      for (std::size_t i = 0; i < drawn.count(); ++i)
        ASSERT_EQ(drawn.ids_of(i, kShape)[0] % 3, static_cast<std::uint32_t>(rank));
    }
  EXPECT_EQ(refusal([&] { ClickSampler(read, {.shard = Shard::skewed}, worker(53, 100)); }),
            "the training clicks hold none with a first category of worker 53: use --shard iid");
}

TEST(ClickSampler, noisyWorkersDrawTheirLabels) {
  const auto set = load_click_set("", kShape);
  const ShardOptions options{.shard = Shard::iid, .noisy_workers = 1};
  const auto surprise_of = [&](int rank) {  // mean distance of labels from what is planted
    const Clicks drawn = ClickSampler(set, options, worker(rank)).draw(4000, worker(rank).random(0));
    double sum = 0;
    for (std::size_t i = 0; i < drawn.count(); ++i) sum += std::abs(drawn.labels[i] - drawn.probabilities[i]);
    return sum / static_cast<double>(drawn.count());
  };
  EXPECT_LT(surprise_of(1), 0.35);
  EXPECT_NEAR(surprise_of(2), 0.5, 0.03);
}

}  // namespace
}  // namespace flockstep::tasks::click_set_test
