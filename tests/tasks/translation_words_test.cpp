#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tasks/translation/number_words.h"
#include "tasks/translation/parallel_text.h"
#include "tasks/translation/utf8.h"

namespace flockstep::tasks {
namespace {

TEST(NumberWords, areThoseThatPeopleSay) {
  const auto check = [](std::uint32_t number, const std::string& english, const std::string& german) {
    EXPECT_EQ(english_number(number), english);
    EXPECT_EQ(german_number(number), german);
  };
  check(0, "zero", "null");
  check(1, "one", "eins");
  check(7, "seven", "sieben");
  check(12, "twelve", "zwölf");
  check(16, "sixteen", "sechzehn");
  check(17, "seventeen", "siebzehn");
  check(21, "twenty-one", "einundzwanzig");
  check(30, "thirty", "dreißig");
  check(66, "sixty-six", "sechsundsechzig");
  check(77, "seventy-seven", "siebenundsiebzig");
  check(100, "one hundred", "einhundert");
  check(101, "one hundred one", "einhunderteins");
  check(111, "one hundred eleven", "einhundertelf");
  check(1000, "one thousand", "eintausend");
  check(1001, "one thousand one", "eintausendeins");
  check(1121, "one thousand one hundred twenty-one", "eintausendeinhunderteinundzwanzig");
  check(21021, "twenty-one thousand twenty-one", "einundzwanzigtausendeinundzwanzig");
  check(101101, "one hundred one thousand one hundred one", "einhunderteintausendeinhunderteins");
  check(999999, "nine hundred ninety-nine thousand nine hundred ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig");
}

TEST(NumberWords, areMadeOfTheSamePartsWhenWrittenApart) {
  EXPECT_EQ(english_number(721'405, Spelling::apart), "seven hundred twenty one thousand four hundred five");
  EXPECT_EQ(german_number(721'405, Spelling::apart), "sieben hundert ein und zwanzig tausend vier hundert fünf");
  for (std::uint32_t number = 0; number < kNumbers; number += 37) {
    std::string german = german_number(number, Spelling::apart), english = english_number(number);
    std::erase(german, ' ');
    EXPECT_EQ(german, german_number(number));
    std::ranges::replace(english, '-', ' ');
    EXPECT_EQ(english, english_number(number, Spelling::apart));
  }
}

TEST(NumberSentences, areTheSameEveryTimeAndKeepTestsOutOfTraining) {
  const NumberSentences options{.most_numbers = 2, .spelling = Spelling::together};
  const ParallelText text = generate_number_sentences(options), again = generate_number_sentences(options);
  EXPECT_EQ(text.train.size(), 20000u);
  EXPECT_EQ(text.validation.size(), 500u);
  ASSERT_EQ(text.test.size(), 500u);
  std::set<std::string> aside;
  for (const auto* part : {&text.test, &text.validation})
    for (const SentencePair& pair : *part) aside.insert(pair.source);
  EXPECT_GT(aside.size(), 500u);
  for (std::size_t i = 0; i < text.train.size(); ++i) {
    EXPECT_EQ(text.train[i].target, again.train[i].target);
    EXPECT_FALSE(aside.contains(text.train[i].source));
  }
  std::set<std::size_t> lengths;
  for (const SentencePair& pair : text.train) lengths.insert(words_of(pair.source).size());
  EXPECT_EQ(*lengths.begin(), 1u);
  EXPECT_EQ(*lengths.rbegin(), 14u);  // nine hundred ninety-nine thousand nine hundred ninety-nine, twice
}

TEST(Utf8, isWhatItsStandardAllows) {
  for (const std::string_view text : {"", "plain", "fünf", "\xe2\x82\xac", "\xf0\x9f\x90\xa6", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  // A lone continuation, ends too early, longer than needed, a surrogate, beyond the last character, never a byte.
  for (const std::string_view text : {"\x80", "a\xc3", "\xe2\x82", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xc3(", "f\xfcnf"})
    EXPECT_FALSE(is_utf8(text)) << text;
  EXPECT_EQ(characters_of("aü€🐦"), (std::vector<std::string_view>{"a", "ü", "€", "🐦"}));
}

TEST(Utf8, wordsStandBetweenSpacesOfAnyKind) {
  const std::vector<std::string_view> expected{"a", "bü", "c"};
  EXPECT_EQ(words_of("a bü c"), expected);
  EXPECT_EQ(words_of("\t a  bü\r\nc\v"), expected);
  EXPECT_EQ(words_of("\u2003a\u00a0bü\u3000\u2028c\u0085"), expected);
  EXPECT_TRUE(words_of(" \u00a0\t").empty());
  EXPECT_EQ(words_of("a\u200bb").size(), 1u);  // of no width, and no space for Unicode
}

}  // namespace
}  // namespace flockstep::tasks
