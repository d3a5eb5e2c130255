// Words of numbers, UTF-8, and BLEU. tests/command/test_metrics.py compares words of numbers with those of another
// generator, and words, counts and penalties of BLEU with those of sacrebleu.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tasks/translation/bleu.h"
#include "tasks/translation/number_words.h"
#include "tasks/translation/parallel_text.h"
#include "tasks/translation/utf8.h"

namespace flockstep::tasks {
namespace {

// tests/command/test_metrics.py compares thousands of them with those of another generator.
TEST(NumberWords, areThoseThatPeopleSayTogetherOrApart) {
  EXPECT_EQ(english_number(101'121), "one hundred one thousand one hundred twenty-one");
  EXPECT_EQ(german_number(101'121), "einhunderteintausendeinhunderteinundzwanzig");
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
  EXPECT_EQ(text.test.size(), 500u);
  std::set<std::string> aside;
  for (const auto* part : {&text.test, &text.validation})
    for (const SentencePair& pair : *part) aside.insert(pair.source);
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < text.train.size(); ++i) {
    EXPECT_EQ(text.train[i].target, again.train[i].target);
    EXPECT_FALSE(aside.contains(text.train[i].source));
    lengths.insert(words_of(text.train[i].source).size());
  }
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

TEST(Bleu, countsAreClippedAndOrdersWithoutAMatchSmoothed) {
  const BleuCounts counts = count_for_bleu("the the the the the the the", "the cat is on the mat");
  EXPECT_EQ(counts.words, 7);
  EXPECT_EQ(counts.reference_words, 6);
  EXPECT_EQ(counts.matches, (std::array<double, 4>{2, 0, 0, 0}));
  EXPECT_EQ(counts.ngrams, (std::array<double, 4>{7, 6, 5, 4}));
  EXPECT_NEAR(bleu(counts), 100 * std::pow(2.0 / 7 / (2 * 6) / (4 * 5) / (8 * 4), 0.25), 1e-9);
}

TEST(Bleu, aCorpusIsTheSumOfItsSentences) {
  BleuCounts corpus = count_for_bleu("a b c d x", "a b c d e");
  corpus += count_for_bleu("f g", "f g h i j");
  EXPECT_NEAR(bleu(corpus), 100 * std::exp(1 - 10.0 / 7) * std::pow(6.0 / 7 * 4 / 5 * 2 / 3 * 1 / 2, 0.25), 1e-9);
  EXPECT_EQ(bleu({}), 0);
  EXPECT_EQ(bleu(count_for_bleu("a b c", "a b c")), 0) << "sentences of three words have no group of four";
}

}  // namespace
}  // namespace flockstep::tasks
