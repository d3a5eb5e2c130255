#include "tasks/translation/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/random.h"

namespace flockstep::tasks {
namespace {

constexpr Token kA = 4, kB = 5, kC = 6;
constexpr std::size_t kVocabulary = 7;

using Probabilities = std::vector<double>;  // of all tokens

// A model by hand: what comes next is a function of the sentence and of the tokens so far.
using Model = std::function<Probabilities(std::size_t sentence, const Tokens& before)>;

class Rows final : public NextToken {
 public:
  Rows(Model model, std::size_t sentences, std::size_t width) : model_(std::move(model)), width_(width) {
    before_.resize(sentences * width);
  }
  std::span<const float> logarithms(std::span<const std::int64_t> parents, std::span<const Token> tokens) override {
    std::vector<Tokens> next;
    logarithms_.clear();
    for (std::size_t row = 0; row < parents.size(); ++row) {
      const auto parent = static_cast<std::size_t>(parents[row]);
      EXPECT_EQ(parent / width_, row / width_);  // a sentence stays with itself
      next.push_back(before_[parent]);
      if (tokens[row] != kBegin) next.back().push_back(tokens[row]);
      for (const double probability : model_(row / width_, next.back()))
        logarithms_.push_back(static_cast<float>(std::log(probability)));
    }
    before_ = std::move(next);
    return logarithms_;
  }

 private:
  Model model_;
  std::size_t width_;
  std::vector<Tokens> before_;
  std::vector<float> logarithms_;
};

std::vector<Translation> found_by(const Model& model, std::size_t sentences, const SearchOptions& options,
                                  std::size_t longest) {
  Rows rows(model, sentences, options.width);
  return search(rows, std::vector<std::size_t>(sentences, longest), options);
}

// Random, with a chance of everything, which padding and kBegin have as well.
Probabilities random_model(std::size_t sentence, const Tokens& before) {
  std::uint32_t seed = static_cast<std::uint32_t>(sentence) + 17;
  for (const Token token : before) seed = seed * 31 + static_cast<std::uint32_t>(token);
  base::Random random(seed, base::Purpose::test);
  Probabilities probabilities(kVocabulary);
  double sum = 0;
  for (double& probability : probabilities) sum += probability = std::exp(2 * random.normal());
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

// Tries every translation.
Translation best_of_all(const Model& model, std::size_t sentence, const SearchOptions& options, std::size_t longest) {
  Translation best{{}, -INFINITY};
  const std::function<void(const Tokens&, double)> visit = [&](const Tokens& before, double logarithm) {
    const auto offer = [&](double total, std::size_t tokens) {
      const double score = total / std::pow((5 + static_cast<double>(tokens)) / 6, options.length_penalty);
      if (score > best.score) best = {before, score};
    };
    if (before.size() == longest) return offer(logarithm, before.size());
    const Probabilities next = model(sentence, before);
    for (const Token token : {kEnd, kUnknown, kA, kB, kC}) {
      const double total = logarithm + std::log(next[static_cast<std::size_t>(token)]);
      Tokens longer = before;
      longer.push_back(token);
      token == kEnd ? offer(total, longer.size()) : visit(longer, total);
    }
  };
  visit({}, 0);
  return best;
}

TEST(Search, aBeamOfOneIsGreedy) {
  constexpr std::size_t kSentences = 50;
  const auto found = found_by(random_model, kSentences, {.width = 1, .length_penalty = 0.6}, 9);
  for (std::size_t sentence = 0; sentence < kSentences; ++sentence) {
    Tokens greedy;
    while (greedy.size() < 9) {
      const Probabilities next = random_model(sentence, greedy);
      const auto token = std::ranges::max_element(next.begin() + kEnd, next.end()) - next.begin();
      if (token == kEnd) break;
      greedy.push_back(static_cast<Token>(token));
    }
    EXPECT_EQ(found[sentence].tokens, greedy) << sentence;
  }
}

TEST(Search, aBeamThatHoldsEverythingFindsTheBest) {
  for (const double penalty : {0.0, 0.6, 1.0}) {
    const SearchOptions options{.width = 4 * 4 * 4 * 4, .length_penalty = penalty};
    const auto found = found_by(random_model, 5, options, 4);
    for (std::size_t sentence = 0; sentence < 5; ++sentence) {
      const Translation best = best_of_all(random_model, sentence, options, 4);
      EXPECT_EQ(found[sentence].tokens, best.tokens);
      EXPECT_NEAR(found[sentence].score, best.score, 1e-5);
      for (const std::size_t width : {1, 2, 4, 16})
        EXPECT_LE(found_by(random_model, 5, {width, penalty}, 4)[sentence].score, best.score + 1e-5);
    }
  }
}

TEST(Search, unlikelyEndsOnTheWayDoNotEndTheSearchAndATranslationWithoutAnEndIsCut) {
  const Model model = [](std::size_t, const Tokens& before) -> Probabilities {
    return before.size() < 6 ? Probabilities{0, 0, 0.03, 0, 0.97, 0, 0} : Probabilities{0, 0, 1, 0, 0, 0, 0};
  };
  for (const std::size_t width : {1, 2, 3, 10})
    EXPECT_EQ(found_by(model, 1, {.width = width, .length_penalty = 0}, 20)[0].tokens, Tokens(6, kA)) << width;
  const Model endless = [](std::size_t, const Tokens&) { return Probabilities{0, 0, 0, 0, 1, 0, 0}; };
  for (const std::size_t width : {1, 3})
    EXPECT_EQ(found_by(endless, 2, {.width = width, .length_penalty = 0.6}, 5)[1].tokens, Tokens(5, kA));
  const Model nothing = [](std::size_t, const Tokens&) { return Probabilities(kVocabulary); };
  EXPECT_TRUE(found_by(nothing, 1, {.width = 2, .length_penalty = 0.6}, 5)[0].tokens.empty());
}

TEST(Search, sentencesDoNotTouchEachOther) {
  for (const std::size_t width : {1, 3}) {
    const SearchOptions options{.width = width, .length_penalty = 0.6};
    const auto together = found_by(random_model, 12, options, 8);
    for (std::size_t sentence = 0; sentence < 12; ++sentence) {
      const Model alone = [&](std::size_t, const Tokens& before) { return random_model(sentence, before); };
      EXPECT_EQ(found_by(alone, 1, options, 8)[0].tokens, together[sentence].tokens);
    }
  }
}

}  // namespace
}  // namespace flockstep::tasks
