// Words of numbers, UTF-8, subwords, and BLEU. tests/command/test_metrics.py compares words of numbers with those of
// another generator, and words, counts and penalties of BLEU with those of sacrebleu.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "tasks/translation/bleu.h"
#include "tasks/translation/bpe.h"
#include "tasks/translation/number_words.h"
#include "tasks/translation/parallel_text.h"
#include "tasks/translation/tokenizer.h"
#include "tasks/translation/utf8.h"

namespace flockstep::tasks::translation_words_test {
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

using Parts = std::vector<std::string>;

Parts characters_with_end(const std::string& word) {
  const std::string ended = word + " ";
  const auto characters = characters_of(ended);
  return {characters.begin(), characters.end()};
}

void apply(Parts& parts, const Merge& merge) {
  for (std::size_t i = 0; i + 1 < parts.size(); ++i)
    if (parts[i] == merge.left && parts[i + 1] == merge.right) {
      parts[i] += parts[i + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
}

// The definition, counting everything anew for each merge.
Subwords learn_plainly(const WordCounts& words, std::size_t most) {
  std::vector<std::pair<Parts, std::int64_t>> all;
  std::map<std::string, std::int64_t> characters;
  for (const auto& [word, count] : words) {
    all.emplace_back(characters_with_end(word), count);
    for (const std::string& character : all.back().first) characters[character] += count;
  }
  Subwords result;
  for (const auto& [character, count] : characters) result.symbols.push_back(character);
  std::ranges::stable_sort(result.symbols, [&](const auto& a, const auto& b) { return characters[a] > characters[b]; });
  EXPECT_LT(result.symbols.size(), most);
  const auto place = [&](const std::string& symbol) { return std::ranges::find(result.symbols, symbol); };
  while (result.symbols.size() < most) {
    std::map<std::pair<std::string, std::string>, std::int64_t> pairs;
    for (const auto& [parts, count] : all)
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) pairs[{parts[i], parts[i + 1]}] += count;
    const auto better = [&](const auto& a, const auto& b) {
      if (a.second != b.second) return a.second < b.second;
      return std::pair{place(a.first.first), place(a.first.second)} >
             std::pair{place(b.first.first), place(b.first.second)};
    };
    const auto best = std::ranges::max_element(pairs, better);
    if (best == pairs.end() || best->second < 2) break;
    const Merge merge{best->first.first, best->first.second};
    result.merges.push_back(merge);
    if (place(merge.left + merge.right) == result.symbols.end()) result.symbols.push_back(merge.left + merge.right);
    for (auto& [parts, count] : all) apply(parts, merge);
  }
  return result;
}

std::string random_word(base::Random& random) {
  const std::array<std::string, 6> letters{"a", "b", "c", "ü", "ß", "€"};
  std::string word;
  for (std::uint32_t left = 1 + random.below(7); left > 0; --left)
    word += letters[std::min(random.below(6), random.below(6))];
  return word;
}

std::vector<std::string> random_lines(std::uint32_t seed, int count) {
  base::Random random(seed, base::Purpose::test);
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    lines.push_back(random_word(random));
    for (std::uint32_t left = random.below(6); left > 0; --left) lines.back() += " " + random_word(random);
  }
  return lines;
}

TEST(Subwords, areThoseOfThePlainDefinition) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    WordCounts words;
    for (const std::string& line : random_lines(seed, 30))
      for (const std::string_view word : words_of(line)) ++words[std::string(word)];
    for (const std::size_t most : {10u, 40u, 1000u}) {
      const Subwords ours = learn_subwords(words, most), theirs = learn_plainly(words, most);
      EXPECT_EQ(ours.symbols, theirs.symbols) << seed;
      EXPECT_TRUE(ours.merges == theirs.merges) << seed;
    }
  }
}

TEST(Subwords, wordsAreEncodedByMergesInTheirOrder) {
  const auto lines = random_lines(1, 60), others = random_lines(2, 60);
  WordCounts counts;
  for (const std::string& line : lines)
    for (const std::string_view word : words_of(line)) ++counts[std::string(word)];
  const Subwords learned = learn_subwords(counts, 36);
  const Tokenizer tokenizer(TokenKind::bpe, lines, 40);
  ASSERT_EQ(tokenizer.size(), learned.symbols.size() + kReserved);
  for (const std::string& line : others)
    for (const std::string_view word : words_of(line)) {
      Parts parts = characters_with_end(std::string(word));
      for (const Merge& merge : learned.merges) apply(parts, merge);
      Tokens expected;
      for (const std::string& part : parts)
        expected.push_back(static_cast<Token>(std::ranges::find(learned.symbols, part) - learned.symbols.begin()) +
                           static_cast<Token>(kReserved));
      EXPECT_EQ(tokenizer.encode(word), expected) << word;
    }
}

TEST(Tokenizer, subwordsLeadBackToTheSentence) {
  const Tokenizer tokenizer(TokenKind::bpe, random_lines(3, 100), 80), again(TokenKind::bpe, random_lines(3, 100), 80);
  for (const std::string& line : random_lines(4, 100)) {
    const Tokens tokens = tokenizer.encode(line);
    EXPECT_EQ(tokens, again.encode(line));
    EXPECT_EQ(tokenizer.decode(tokens), line);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("  " + line + "\t")), line);
  }
  EXPECT_LE(tokenizer.size(), 80u);
}

TEST(Tokenizer, whatWasNeverSeenIsUnknown) {
  const std::vector<std::string> lines{"a b a", "a ba b"};
  const Tokenizer subwords(TokenKind::bpe, lines, 20), words(TokenKind::words, lines, 7);
  EXPECT_EQ(subwords.decode(subwords.encode("bab")), "bab");
  EXPECT_EQ(std::ranges::count(subwords.encode("azb"), kUnknown), 1);
  EXPECT_EQ(subwords.encode(std::string(1000, 'a')), Tokens{kUnknown});  // no word
  EXPECT_EQ(words.encode("b a, ba c"), (Tokens{5, 4, kUnknown, 6, kUnknown}));
  EXPECT_EQ(Tokenizer(TokenKind::bpe, std::vector<std::string>{"b b b a a c"}, 6).encode("b a"),
            (Tokens{5, 4, kUnknown, 4}))
      << "a small vocabulary has the space and b";
  EXPECT_EQ(Tokenizer(TokenKind::words, {}, 100).size(), kReserved);
  EXPECT_EQ(words.decode(std::array<Token, 7>{kBegin, 4, 5, kPadding, 6, kEnd, 99}), "a b ba");
}

}  // namespace
}  // namespace flockstep::tasks::translation_words_test
