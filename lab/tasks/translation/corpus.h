// Parallel text as numbers: the tokens of its sentences, and their vocabulary, which is learned from the training text.
#pragma once

#include <memory>

#include "tasks/translation/parallel_text.h"
#include "tasks/translation/tokenizer.h"

namespace flockstep::tasks {

struct TokenPair {
  Tokens source, target;  // without kBegin and kEnd

  std::size_t size() const { return source.size() + target.size(); }
};

struct TestSentence {
  Tokens source;
  std::string reference;
};

struct CorpusOptions {
  TextFiles files;          // without a folder: numbers in words
  NumberSentences numbers;  // then
  TokenKind tokens = TokenKind::bpe;
  std::size_t vocabulary = 1000;  // tokens at most
  std::size_t longest = 100;      // tokens of a sentence: longer pairs are not trained on, longer tests are cut
  std::size_t tested = 0;         // test and validation sentences at most, the first ones; 0: all
};

struct Corpus {
  Tokenizer tokenizer;
  std::vector<TokenPair> train;  // the shortest first
  double mean_size = 0;          // of these
  std::vector<TestSentence> validation, test;
};

// The same object for all workers of a process that want the same.
std::shared_ptr<const Corpus> load_corpus(const CorpusOptions& options);

}  // namespace flockstep::tasks
