// Parallel text in files, and what workers draw from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data_files.h"
#include "tasks/translation/corpus.h"
#include "tasks/translation/pair_sampler.h"

namespace flockstep::tasks::translation_text_test {
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

constexpr int kWorkers = 4;
const base::Settings kNoSettings;

std::shared_ptr<const Corpus> numbers() {
  static const auto corpus =
      load_corpus({.files = {}, .numbers = {}, .tokens = TokenKind::bpe, .vocabulary = 200, .longest = 60});
  return corpus;
}

WorkerData worker(int rank) { return WorkerData({kNoSettings, 1, 16 * kWorkers, rank, kWorkers}); }

std::size_t size_of(const PairSampler::Sample& sample) { return sample.source->size() + sample.target->size(); }

TEST(PairSampler, batchesAreAlikeInLengthAndAStepHasAlwaysTheSame) {
  const auto corpus = numbers();
  const PairSampler sampler(corpus, {}, worker(1));
  const std::size_t longest = corpus->train.back().size();
  for (std::int64_t step = 0; step < 50; ++step) {
    base::Random first = worker(1).random(step), second = worker(1).random(step), other = worker(2).random(step);
    const auto batch = sampler.draw(first), again = sampler.draw(second), others = sampler.draw(other);
    ASSERT_EQ(batch.size(), 16u);
    EXPECT_TRUE(std::ranges::equal(batch, again, {}, &PairSampler::Sample::source, &PairSampler::Sample::source));
    EXPECT_FALSE(std::ranges::equal(batch, others, {}, &PairSampler::Sample::source, &PairSampler::Sample::source));
    const auto [least, most] = std::ranges::minmax(batch, {}, size_of);
    EXPECT_LE(size_of(most) - size_of(least), longest / 4);
  }
}

TEST(PairSampler, loadsAreUnevenWithAMeanOfOne) {
  const PairSampler sampler(numbers(), {}, worker(0));
  std::vector<double> loads;
  for (std::int64_t step = 0; step < 4000; ++step) {
    base::Random random = worker(0).random(step);
    loads.push_back(sampler.load_of(sampler.draw(random)));
  }
  EXPECT_NEAR(std::reduce(loads.begin(), loads.end()) / 4000, 1, 0.03);
  EXPECT_LT(std::ranges::min(loads), 0.3);
  EXPECT_GT(std::ranges::max(loads), 1.5);
}

TEST(PairSampler, skewedWorkersSeeSentencesOfTheirOwnLengths) {
  const auto corpus = numbers();
  std::size_t longest_before = 0;
  for (int rank = 0; rank < kWorkers; ++rank) {
    const PairSampler sampler(corpus, {.shard = Shard::skewed}, worker(rank));
    std::set<std::size_t> sizes;
    for (std::int64_t step = 0; step < 200; ++step) {
      base::Random random = worker(rank).random(step);
      for (const auto& sample : sampler.draw(random)) sizes.insert(size_of(sample));
    }
    EXPECT_GE(*sizes.begin(), longest_before);
    longest_before = *sizes.rbegin();
  }
  EXPECT_GT(longest_before, corpus->train.back().size() * 3 / 4);
}

TEST(PairSampler, aShardNeedsAPairForEachWorker) {
  const test::TemporaryFolder folder;
  for (const std::string file : {"train.en", "train.de", "test.en", "test.de"}) folder.write(file, "one\ntwo\n");
  const auto corpus = load_corpus(
      {.files = {.folder = folder.string()}, .numbers = {}, .tokens = TokenKind::bpe, .vocabulary = 50, .longest = 50});
  EXPECT_EQ(refusal([&] { PairSampler(corpus, {.shard = Shard::skewed}, worker(2)); }),
            "there are fewer pairs of sentences than workers: use --shard iid");
  base::Random random = worker(0).random(0);
  EXPECT_EQ(PairSampler(corpus, {}, worker(0)).draw(random).size(), 16u);  // the same pairs again and again
}

}  // namespace
}  // namespace flockstep::tasks::translation_text_test
