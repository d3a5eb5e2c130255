// Beam search for the most likely translation, of several sentences at once. A beam of one is greedy search.
#pragma once

#include <cstdint>
#include <span>

#include "tasks/translation/tokenizer.h"

namespace flockstep::tasks {

// What a search asks of a model.
class NextToken {
 public:
  virtual ~NextToken() = default;
  // Row i goes on from row parents[i] of the last call with tokens[i]; in the first call, with its sentence's kBegin.
  // Returns the logarithms of the next token's probabilities, row by row. Valid until the next call.
  virtual std::span<const float> logarithms(std::span<const std::int64_t> parents, std::span<const Token> tokens) = 0;
};

struct SearchOptions {
  std::size_t width = 1;        // of the beam: rows of a sentence, which stand one behind the other
  double length_penalty = 0.6;  // alpha of Wu et al. (2016): 0 prefers short translations, 1 goes by the mean of tokens
};

struct Translation {
  Tokens tokens;  // without kEnd
  double score;   // its logarithm, divided by ((5 + tokens) / 6) ^ alpha, kEnd among these
};

double score_of(double logarithm, std::size_t tokens, double length_penalty);

// Of as many sentences as `longest` has numbers: a translation that has no end after so many tokens is cut there.
std::vector<Translation> search(NextToken& model, std::span<const std::size_t> longest, const SearchOptions& options);

}  // namespace flockstep::tasks
