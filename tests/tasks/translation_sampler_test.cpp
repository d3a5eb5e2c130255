#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data_files.h"
#include "tasks/translation/pair_sampler.h"

namespace flockstep::tasks::translation_sampler_test {
namespace {

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
}  // namespace flockstep::tasks::translation_sampler_test
