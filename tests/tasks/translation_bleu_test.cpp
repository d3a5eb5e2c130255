#include <gtest/gtest.h>

#include <cmath>

#include "tasks/translation/bleu.h"

namespace flockstep::tasks {
namespace {

using Words = std::vector<std::string>;

double bleu_of(std::string_view translation, std::string_view reference) {
  return bleu(count_for_bleu(translation, reference));
}

TEST(Bleu, wordsAreThoseOfMteval) {
  EXPECT_EQ(words_as_13a("Hello, world!"), (Words{"Hello", ",", "world", "!"}));
  EXPECT_EQ(words_as_13a("3.14 1,000. .5 5-3 a-b"), (Words{"3.14", "1,000", ".", ".", "5", "5", "-", "3", "a-b"}));
  EXPECT_EQ(words_as_13a("it's &quot;so&quot; &lt;b&gt; &amp;c"),
            (Words{"it's", "\"", "so", "\"", "<", "b", ">", "&", "c"}));
  EXPECT_EQ(words_as_13a("a<skipped>b"), (Words{"ab"}));
  EXPECT_EQ(words_as_13a("fünf...sechs"), (Words{"fünf", ".", ".", ".", "sechs"}));
  EXPECT_EQ(words_as_13a(" \t"), Words{});
}

TEST(Bleu, countsAreClippedAndOrdersWithoutAMatchSmoothed) {
  const BleuCounts counts = count_for_bleu("the the the the the the the", "the cat is on the mat");
  EXPECT_EQ(counts.words, 7);
  EXPECT_EQ(counts.reference_words, 6);
  EXPECT_EQ(counts.matches, (std::array<double, 4>{2, 0, 0, 0}));
  EXPECT_EQ(counts.ngrams, (std::array<double, 4>{7, 6, 5, 4}));
  EXPECT_NEAR(bleu(counts), 100 * std::pow(2.0 / 7 / (2 * 6) / (4 * 5) / (8 * 4), 0.25), 1e-9);
}

TEST(Bleu, shortTranslationsArePenalisedAndLongOnesLosePrecision) {
  EXPECT_NEAR(bleu_of("a b c d e", "a b c d e"), 100, 1e-9);
  EXPECT_NEAR(bleu_of("a b c d", "a b c d e"), 100 * std::exp(1 - 5.0 / 4), 1e-9);
  EXPECT_NEAR(bleu_of("a b c d e f", "a b c d e"), 100 * std::pow(5.0 / 6 * 4 / 5 * 3 / 4 * 2 / 3, 0.25), 1e-9);
}

TEST(Bleu, nothingInCommonIsZeroAndSoAreSentencesOfThreeWords) {
  EXPECT_EQ(bleu_of("", "a b c d"), 0);
  EXPECT_EQ(bleu_of("e f g h", "a b c d"), 0);
  EXPECT_EQ(bleu_of("a b c", "a b c"), 0);
  EXPECT_EQ(bleu({}), 0);
}

TEST(Bleu, aCorpusIsTheSumOfItsSentences) {
  BleuCounts corpus = count_for_bleu("a b c d x", "a b c d e");
  corpus += count_for_bleu("f g", "f g h i j");
  EXPECT_NEAR(bleu(corpus), 100 * std::exp(1 - 10.0 / 7) * std::pow(6.0 / 7 * 4 / 5 * 2 / 3 * 1 / 2, 0.25), 1e-9);
}

}  // namespace
}  // namespace flockstep::tasks
