#include <gtest/gtest.h>

#include <algorithm>

#include "data_files.h"
#include "tasks/translation/corpus.h"

namespace flockstep::tasks {
namespace {

class TextFolder : public test::TemporaryFolder {
 public:
  TextFolder() {
    write("train.en", "one house\nthe tree\n\na bird, a tree\n");
    write("train.de", "ein Haus\nder Baum\nnichts\nein Vogel, ein Baum\n");
    write("test.en", "the house\n");
    write("test.de", "das Haus\n");
  }
  TextFiles files() const { return {.folder = string(), .source = "en", .target = "de"}; }
  CorpusOptions options(TokenKind tokens = TokenKind::bpe) const {
    return {.files = files(), .numbers = {}, .tokens = tokens, .vocabulary = 60, .longest = 30, .tested = 0};
  }
};

TEST(ParallelText, linesThatBelongTogetherArePairs) {
  const TextFolder folder;
  const ParallelText text = read_parallel_text(folder.files());
  ASSERT_EQ(text.train.size(), 3u);  // not the one of which a side is blank
  EXPECT_EQ(text.train[2].source, "a bird, a tree");
  EXPECT_EQ(text.train[2].target, "ein Vogel, ein Baum");
  EXPECT_EQ(text.test[0].target, "das Haus");
  EXPECT_TRUE(text.validation.empty());
  EXPECT_EQ(files_of(folder.files()).size(), 4u);

  folder.write("valid.en", "\xef\xbb\xbfone tree\r\nno end");  // a byte order mark, and a last line without an end
  folder.write("valid.de", "ein Baum\r\nohne Ende");
  const ParallelText more = read_parallel_text(folder.files());
  ASSERT_EQ(more.validation.size(), 2u);
  EXPECT_EQ(more.validation[0].source, "one tree");
  EXPECT_EQ(more.validation[0].target, "ein Baum");
  EXPECT_EQ(more.validation[1].target, "ohne Ende");
  EXPECT_EQ(files_of(folder.files()).size(), 6u);
}

TEST(ParallelText, everyFiftiethPairIsKeptAsideWhereThereAreNoFilesForIt) {
  const TextFolder folder;
  std::string source, target;
  for (int i = 1; i <= 120; ++i) {
    source += "number " + std::to_string(i) + "\n";
    target += "Nummer " + std::to_string(i) + "\n";
  }
  folder.write("train.en", source);
  folder.write("train.de", target);
  const ParallelText text = read_parallel_text(folder.files());
  EXPECT_EQ(text.train.size(), 118u);
  ASSERT_EQ(text.validation.size(), 2u);
  EXPECT_EQ(text.validation[0].source, "number 50");
  EXPECT_EQ(text.validation[1].target, "Nummer 100");
}

TEST(ParallelText, filesThatCannotBeTrustedAreRefusedByName) {
  const TextFolder folder;
  const std::string en = folder.string() + "/train.en", de = folder.string() + "/train.de";
  const auto refused = [&] { return refusal([&] { read_parallel_text(folder.files()); }); };
  EXPECT_EQ(refused(), "");
  for (const auto& [bytes, said] :
       {std::pair<std::string, std::string>{"ein Haus\n", de + " holds 1 lines for the 4 of " + en},
        {"", de + " is empty"},
        {"a\nb\nf\xfcnf\nd\n", de + " is not UTF-8 in line 3"},
        {std::string("a\nb\0b\nc\nd\n", 10), de + " holds a zero byte in line 2"},
        {"\n \n\t\n\n", en + " and " + de + " hold no pair of sentences"}}) {
    folder.write("train.de", bytes);
    EXPECT_TRUE(refused().starts_with(said)) << refused();
  }
  folder.remove("train.de");
  EXPECT_EQ(refused(), de + " is not there");
  folder.write("train.de", "a\nb\nc\nd\n");
  folder.write("valid.de", "a\n");
  EXPECT_EQ(refused(), folder.string() + "/valid.en is not there");
  EXPECT_EQ(refusal([] { read_parallel_text({.folder = "/nowhere"}); }), "/nowhere/train.en is not there");
}

TEST(Corpus, sentencesThatAreTooLongAreNotTrainedOn) {
  const TextFolder folder;
  CorpusOptions options = folder.options(TokenKind::words);
  EXPECT_EQ(load_corpus(options)->train.size(), 3u);
  options.longest = 4;
  EXPECT_EQ(load_corpus(options)->train.size(), 2u);  // "a bird , a tree" has five
  folder.write("test.en", "the very old house\n");
  options.longest = 3;
  EXPECT_EQ(load_corpus(options)->test[0].source.size(), 3u);
  options.longest = 1;
  EXPECT_EQ(refusal([&] { load_corpus(options); }),
            folder.string() + " holds no pair of sentences to train on of at most 1 tokens");
}

TEST(Corpus, isSortedByLengthSharedAndCutToSoManyTests) {
  CorpusOptions options{.files = {}, .numbers = {}, .tokens = TokenKind::words, .vocabulary = 500, .longest = 50};
  options.tested = 30;
  const auto corpus = load_corpus(options);
  EXPECT_EQ(load_corpus(options), corpus);
  EXPECT_EQ(corpus->test.size(), 30u);
  EXPECT_EQ(corpus->validation.size(), 30u);
  EXPECT_TRUE(std::ranges::is_sorted(corpus->train, {}, &TokenPair::size));
  double total = 0;
  for (const TokenPair& pair : corpus->train) total += static_cast<double>(pair.size());
  EXPECT_NEAR(corpus->mean_size, total / 20000, 1e-9);
  options.tokens = TokenKind::bpe;
  EXPECT_NE(load_corpus(options), corpus);
  EXPECT_EQ(load_corpus(options)->test.size(), 30u);
}

TEST(Corpus, aSentenceWithoutAWordIsUnknown) {
  const TextFolder folder;
  folder.write("test.en", "<skipped>\n");
  folder.write("train.en", "<skipped>\nthe tree\n\na bird\n");
  const auto corpus = load_corpus(folder.options(TokenKind::words));
  EXPECT_EQ(corpus->test[0].source, Tokens{kUnknown});
  EXPECT_EQ(corpus->train.size(), 2u);
}

TEST(Corpus, damagedFilesGiveTokensOrOneSentence) {
  const TextFolder folder;
  int refused = 0;
  for (const std::string name : {"train.en", "train.de", "test.en", "test.de"}) {
    const std::string good = base::read_text(folder.string() + "/" + name);
    int round = 0;
    refused += refused_of_damaged(good, 500, folder.string(), [&](const std::string& bytes) {
      folder.write(name, bytes);
      const auto corpus = load_corpus(folder.options(++round % 2 == 0 ? TokenKind::bpe : TokenKind::words));
      const auto expect_tokens = [&](const Tokens& tokens) {
        for (const Token token : tokens) EXPECT_TRUE(token >= 3 && token < 60) << token;
      };
      for (const TokenPair& pair : corpus->train) {
        EXPECT_FALSE(pair.source.empty());
        expect_tokens(pair.source), expect_tokens(pair.target);
      }
      for (const TestSentence& test : corpus->test) {
        EXPECT_FALSE(test.source.empty());
        expect_tokens(test.source);
      }
    });
    folder.write(name, good);
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(refused, 1800);
}

}  // namespace
}  // namespace flockstep::tasks
