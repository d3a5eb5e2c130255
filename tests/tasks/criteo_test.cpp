#include "tasks/recommendation/criteo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "click_files.h"
#include "data_files.h"

namespace flockstep::tasks::criteo_test {
namespace {

const ClickShape kShape = criteo_shape(1000);

Clicks read(const std::string& text, const ClickShape& shape = kShape) { return read_criteo(text, "the log", shape); }

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
  const auto numbers = clicks.numbers_of(0, kShape);
  EXPECT_EQ(numbers[0], 0);
  EXPECT_EQ(numbers[1], 0);
  EXPECT_EQ(numbers[2], 0);
  EXPECT_FLOAT_EQ(numbers[3], std::log(10.0f));
  EXPECT_FLOAT_EQ(numbers[4], std::log(2147483649.0f));
  EXPECT_TRUE(clicks.probabilities.empty());
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
  for (std::size_t i = 0; i < many.count(); ++i) {
    ASSERT_LT(many.ids_of(i, shape)[0], 101u);
    ++seen[many.ids_of(i, shape)[0]];
  }
  EXPECT_EQ(seen[0], 0);
  EXPECT_GT(*std::min_element(seen.begin() + 1, seen.end()), 3);  // 20 each on average
  EXPECT_LT(*std::ranges::max_element(seen), 50);
  const ClickShape narrow = criteo_shape(1);
  EXPECT_EQ(read(text, narrow).ids, std::vector<std::uint32_t>(2000 * 26, 0));
}

TEST(Criteo, theLastLineMayEndWithoutANewline) {
  const std::string text = criteo_text(5);
  EXPECT_EQ(read(text).ids, read(text.substr(0, text.size() - 1)).ids);
  EXPECT_EQ(read(text).count(), 5u);
}

TEST(Criteo, whatIsNoClickLogIsRefusedWithTheLine) {
  const std::string start = "the log is not a click log of Criteo, or is damaged: line ";
  const std::string fields = " fields instead of 40: a label, 13 numbers and 26 categories, with tabs between them";
  EXPECT_EQ(refusal_of("hello"), start + "1 has 1" + fields);
  EXPECT_EQ(refusal_of("\n"), start + "1 has 1" + fields);
  EXPECT_EQ(refusal_of(criteo_text(3) + "\n"), start + "4 has 1" + fields);
  EXPECT_EQ(refusal_of(line_of("0") + "\t"), start + "1 has 41" + fields);
  EXPECT_EQ(refusal_of(std::string(100000, '\t')), start + "1 has 100001" + fields);
  const std::string without_label = line_of("5").substr(0, 39);  // as in Kaggle's test.txt
  EXPECT_EQ(refusal_of(without_label), start + "1 has 39" + fields);
  EXPECT_EQ(refusal_of(criteo_text(2) + line_of("2")), start + "3 has the label '2': it is 0 or 1");
  EXPECT_EQ(refusal_of(line_of("")), start + "1 has the label '': it is 0 or 1");
  EXPECT_EQ(refusal_of(line_of("1.0")), start + "1 has the label '1.0': it is 0 or 1");
  EXPECT_EQ(refusal_of(line_of(std::string(1, '\0'))), start + "1 has the label '?': it is 0 or 1");
  EXPECT_EQ(refusal_of(line_of("0\t1.5")), start + "1 has '1.5' for a whole number");
  EXPECT_EQ(refusal_of(line_of("0\t 1")), start + "1 has ' 1' for a whole number");
  EXPECT_EQ(refusal_of(line_of("0\tnan")), start + "1 has 'nan' for a whole number");
  EXPECT_EQ(refusal_of(line_of("0\t-")), start + "1 has '-' for a whole number");
  EXPECT_EQ(refusal_of(line_of("0\t" + std::string(5000, '9'))),
            start + "1 has '" + std::string(20, '9') + "...' for a whole number");
  const std::string numbers = "0" + std::string(13, '\t'),
                    digits = "' for a category of up to eight hexadecimal digits";
  for (const char* category : {"68fd1e64a", "0000000001", "-1", "0x12", "g", "68fd 1e6", "\x80"}) {
    const std::string shown = category == std::string("\x80") ? "?" : category;
    EXPECT_EQ(refusal_of(line_of(numbers + "\t" + category)), start + "1 has '" + shown + digits);
  }
  EXPECT_EQ(refusal_of(line_of("0") + "\r\r\n"), start + "1 has '?" + digits);
  EXPECT_EQ(refusal_of(line_of("0") + "\r\n" + line_of("2") + "\r\n"), start + "2 has the label '2': it is 0 or 1");
}

TEST(Criteo, everyPrefixOfALogIsReadOrRefused) {
  const std::string text = criteo_text(2);
  std::size_t read_whole = 0;
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const std::string said = refusal_of(text.substr(0, size));
    if (said.empty()) ++read_whole;
    if (!said.empty()) {
      EXPECT_TRUE(said.starts_with("the log is not a click log of Criteo, or is damaged: line ")) << said;
    }
  }
  EXPECT_GE(read_whole, 2u);  // each line with and without its newline, and cut within its last category
  EXPECT_LE(read_whole, 2 * 10u);
}

TEST(Criteo, damagedLogsAreReadOrRefused) {
  const std::string good = criteo_text(6);
  base::Random random(8, base::Purpose::test);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string text = damaged(good, random);
    Clicks clicks;
    const std::string said = refusal([&] { clicks = read(text); });
    if (!said.empty()) {
      ++refused;
      EXPECT_TRUE(said.starts_with("the log is not a click log of Criteo, or is damaged: line ")) << said;
      EXPECT_LT(said.size(), 200u);
      EXPECT_TRUE(std::ranges::all_of(said, [](char c) { return c >= ' ' && c <= '~'; })) << said;
      continue;
    }
    ASSERT_EQ(clicks.numbers.size(), clicks.count() * 13);
    ASSERT_EQ(clicks.ids.size(), clicks.count() * 26);
    for (const std::uint32_t id : clicks.ids) ASSERT_LT(id, 1000u);
    for (const float number : clicks.numbers) ASSERT_TRUE(number >= 0 && number < 50);
    for (const std::uint8_t label : clicks.labels) ASSERT_LE(label, 1);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

}  // namespace
}  // namespace flockstep::tasks::criteo_test
