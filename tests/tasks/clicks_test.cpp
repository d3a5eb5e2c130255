// Click logs as Criteo writes them, what workers draw from them, and the metrics of clicks where
// tests/command/test_metrics.py does not compare them with those of scikit-learn.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "data_files.h"
#include "tasks/recommendation/click_metrics.h"
#include "tasks/recommendation/click_set.h"
#include "tasks/recommendation/criteo.h"
#include "tasks/recommendation/generated_clicks.h"

namespace flockstep::tasks::clicks_test {
namespace {

ClickShape criteo_shape(std::uint32_t rows) {
  return {.numbers = kCriteoNumbers, .rows = std::vector<std::uint32_t>(kCriteoCategories, rows)};
}

// Every seventh field is empty; labels take turns.
std::string criteo_text(int lines, std::uint32_t seed = 1) {
  base::Random random(seed, base::Purpose::test);
  std::string text;
  for (int line = 0; line < lines; ++line) {
    text += line % 2 == 0 ? '0' : '1';
    for (std::size_t i = 0; i < kCriteoNumbers; ++i)
      text += random.below(7) == 0 ? "\t" : fmt::format("\t{}", static_cast<int>(random.below(1000)) - 3);
    for (std::size_t i = 0; i < kCriteoCategories; ++i)
      text += random.below(7) == 0 ? "\t" : fmt::format("\t{:08x}", random.bits());
    text += '\n';
  }
  return text;
}

const ClickShape kManyRows = criteo_shape(1000);

Clicks read(const std::string& text, const ClickShape& shape = kManyRows) {
  return read_criteo(text, "the log", shape);
}

std::string refusal_of(const std::string& text) {
  return refusal([&] { read(text); });
}

// A line with these fields first and empty ones for the rest.
std::string line_of(const std::string& fields) {
  const auto tabs = std::ranges::count(fields, '\t');
  return fields + std::string(39 - static_cast<std::size_t>(tabs), '\t');
}

TEST(Criteo, fieldsAreLabelNumbersAndCategories) {
  const Clicks clicks = read(line_of("1\t0\t-2\t\t9\t2147483648") + "\n" + line_of("0") + "\n");
  ASSERT_EQ(clicks.count(), 2u);
  EXPECT_EQ(clicks.labels, (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(clicks.numbers.size(), 26u);
  EXPECT_EQ(clicks.ids, std::vector<std::uint32_t>(52, 0));  // nothing known has a row for itself
  const auto numbers = clicks.numbers_of(0, kManyRows);
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(numbers[i], 0);
  EXPECT_FLOAT_EQ(numbers[3], std::log(10.0f));
  EXPECT_FLOAT_EQ(numbers[4], std::log(2147483649.0f));
}

TEST(Criteo, aCategoryHasTheSameRowEverywhereAndOthersAreSpreadOverTheTable) {
  const std::string numbers(13, '\t');
  const Clicks same = read(line_of("0" + numbers + "\t68fd1e64\t68FD1E64\t68fd1e64"));
  EXPECT_EQ(same.ids[0], same.ids[1]);
  EXPECT_EQ(same.ids[0], same.ids[2]);
  EXPECT_NE(same.ids[0], 0u);
  EXPECT_EQ(same.ids[3], 0u);

  std::string text;
  for (int value = 0; value < 2000; ++value) text += line_of("0" + numbers + fmt::format("\t{:x}", value)) + "\n";
  const ClickShape shape = criteo_shape(101);
  const Clicks many = read(text, shape);
  std::array<int, 101> seen{};
  for (std::size_t i = 0; i < many.count(); ++i) ++seen.at(many.ids_of(i, shape)[0]);
  EXPECT_EQ(seen[0], 0);
  EXPECT_GT(*std::min_element(seen.begin() + 1, seen.end()), 3);  // 20 each on average
  EXPECT_LT(*std::ranges::max_element(seen), 50);
  EXPECT_EQ(read(text, criteo_shape(1)).ids, std::vector<std::uint32_t>(2000 * 26, 0));
}

TEST(Criteo, whatIsNoClickLogIsRefusedWithTheLine) {
  const std::string numbers = "0" + std::string(13, '\t') + "\t";
  std::vector<std::pair<std::string, std::string>> wrong{
      {"hello", "1 has 1 fields instead of 40"},
      {"\n", "1 has 1 fields instead of 40"},
      {criteo_text(3) + "\n", "4 has 1 fields"},
      {line_of("0") + "\t", "1 has 41 fields"},
      {line_of("5").substr(0, 39), "1 has 39 fields"},  // without a label, as in Kaggle's test.txt
      {criteo_text(2) + line_of("2"), "3 has the label '2': it is 0 or 1"},
      {line_of(""), "1 has the label ''"},
      {line_of("1.0"), "1 has the label '1.0'"},
      {line_of(std::string(1, '\0')), "1 has the label '?'"},
      {line_of("0") + "\r\n" + line_of("2") + "\r\n", "2 has the label '2'"},
      {line_of("0\t" + std::string(5000, '9')), "1 has '" + std::string(20, '9') + "...' for a whole number"},
      {line_of("0") + "\r\r\n", "1 has '?' for a category"},
  };
  for (const std::string number : {"1.5", " 1", "nan", "-"})
    wrong.emplace_back(line_of("0\t" + number), "1 has '" + number + "' for a whole number");
  for (const std::string category : {"68fd1e64a", "0000000001", "-1", "0x12", "g", "68fd 1e6"})
    wrong.emplace_back(line_of(numbers + category), "1 has '" + category + "' for a category");
  for (const auto& [text, said] : wrong) {
    const std::string sentence = refusal_of(text);
    EXPECT_TRUE(sentence.starts_with("the log is not a click log of Criteo, or is damaged: line " + said)) << sentence;
  }
}

// The cuts include each line with and without its newline, and within its last category.
TEST(Criteo, cutAndDamagedLogsAreReadOrRefused) {
  std::size_t prefixes = 0;
  const std::string two = criteo_text(2);
  for (std::size_t size = 1; size <= two.size(); ++size) prefixes += refusal_of(two.substr(0, size)).empty() ? 1 : 0;
  EXPECT_GE(prefixes, 2u);
  EXPECT_LE(prefixes, 2 * 10u);
  const int refused =
      refused_of_damaged(criteo_text(6), 4000, "the log is not a click log", [](const std::string& text) {
        const Clicks clicks = read(text);
        ASSERT_EQ(clicks.numbers.size(), clicks.count() * 13);
        ASSERT_EQ(clicks.ids.size(), clicks.count() * 26);
        for (const std::uint32_t id : clicks.ids) ASSERT_LT(id, 1000u);
        for (const float number : clicks.numbers) ASSERT_TRUE(number >= 0 && number < 50);
        for (const std::uint8_t label : clicks.labels) ASSERT_LE(label, 1);
      });
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

const ClickShape kShape = criteo_shape(50);
const base::Settings kNone;

WorkerData worker(int rank, int workers = 3) { return WorkerData(TaskInputs{kNone, 7, 20, rank, workers}); }

TEST(ClickSet, theLastSeventhOfALogIsForValidationAndThenForTheTest) {
  const test::TemporaryFolder files;
  const std::string text = criteo_text(100), path = files.write("log.tsv", text);
  const auto set = load_click_set(path, kShape);
  EXPECT_EQ(set->train.count(), 86u);
  EXPECT_EQ(set->validation.count(), 7u);
  EXPECT_FALSE(set->is_generated);
  EXPECT_EQ(load_click_set(path, kShape), set) << "workers of a process share it";
  EXPECT_NE(load_click_set(path, criteo_shape(51)), set);
  Clicks together = set->train;
  together.append(set->validation, 0, 7, kShape);
  together.append(set->test, 0, 7, kShape);
  const Clicks all = read_criteo(text, "the log", kShape);
  EXPECT_EQ(together.ids, all.ids);
  EXPECT_EQ(together.numbers, all.numbers);
  EXPECT_EQ(together.labels, all.labels);
}

TEST(ClickSet, filesThatCannotServeAreRefusedByName) {
  const test::TemporaryFolder files;
  std::string ones;
  for (int i = 0; i < 100; ++i) ones += "1" + std::string(39, '\t') + "\n";
  for (const auto& [text, said] :
       {std::pair<std::string, std::string>{"", " is empty"},
        {criteo_text(1), " has 0 lines for validation, and not both labels among them"},
        {criteo_text(27), " has 1 lines for validation, and not both labels among them"},
        {ones, " has 7 lines for validation, and not both labels among them"},
        {criteo_text(100).substr(0, 2000), " is not a click log of Criteo, or is damaged"}}) {
    const std::string path = files.write("log.tsv", text);
    EXPECT_TRUE(refusal([&] { load_click_set(path, kShape); }).starts_with(path + said)) << said;
  }
  EXPECT_EQ(refusal([&] { load_click_set(files.string(), kShape); }), files.string() + "/train.txt is not there");
  files.write("train.txt", criteo_text(60));
  EXPECT_EQ(load_click_set(files.string(), kShape)->train.count(), 52u) << "a folder stands for its train.txt";
}

TEST(ClickSampler, drawsFromAllTrainingClicksOfAFile) {
  const test::TemporaryFolder files;
  const auto set = load_click_set(files.write("log.tsv", criteo_text(60)), kShape);
  const ClickSampler sampler(set, {}, worker(0));
  const Clicks drawn = sampler.draw(1000, worker(0).random(0));
  EXPECT_EQ(drawn.count(), 1000u);
  const auto lines_of = [](const Clicks& clicks) {
    std::set<std::vector<std::uint32_t>> lines;
    for (std::size_t i = 0; i < clicks.count(); ++i) {
      const auto ids = clicks.ids_of(i, kShape);
      lines.emplace(ids.begin(), ids.end());
    }
    return lines;
  };
  EXPECT_EQ(lines_of(drawn), lines_of(set->train));
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

using Scores = std::vector<double>;
using Labels = std::vector<std::uint8_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(AreaUnderCurve, thereIsNoneWithoutPairsOrWithScoresThatAreNotNumbers) {
  EXPECT_EQ(area_under_curve(Scores{-kInfinity, 0, kInfinity}, Labels{0, 1, 0}), 0.5);
  EXPECT_EQ(area_under_curve(Scores{kInfinity, kInfinity, 0}, Labels{1, 0, 0}), 0.75);
  EXPECT_TRUE(std::isnan(area_under_curve({}, {})));
  EXPECT_TRUE(std::isnan(area_under_curve(Scores{1, 2}, Labels{1, 1})));
  EXPECT_TRUE(std::isnan(area_under_curve(Scores{1, 2}, Labels{0, 0})));
  EXPECT_TRUE(std::isnan(area_under_curve(Scores{1, kNaN, 0, kNaN, 3}, Labels{0, 1, 1, 0, 1})));
}

TEST(LogLoss, largeLogOddsNeitherOverflowNorVanish) {
  EXPECT_DOUBLE_EQ(log_loss(Scores{5000}, Labels{0}), 5000);
  EXPECT_DOUBLE_EQ(log_loss(Scores{-5000}, Labels{1}), 5000);
  EXPECT_EQ(log_loss(Scores{5000}, Labels{1}), 0);
  EXPECT_DOUBLE_EQ(log_loss(Scores{40}, Labels{1}), std::exp(-40));
  EXPECT_TRUE(std::isnan(log_loss(Scores{kNaN, 1}, Labels{1, 0})));
}

}  // namespace
}  // namespace flockstep::tasks::clicks_test
