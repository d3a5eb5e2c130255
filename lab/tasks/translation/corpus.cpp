#include "tasks/translation/corpus.h"

#include <fmt/core.h>

#include <algorithm>

#include "tasks/data_file.h"
#include "tasks/shared_data.h"

namespace flockstep::tasks {
namespace {

std::vector<TestSentence> test_sentences(const std::vector<SentencePair>& pairs, const CorpusOptions& options,
                                         const Tokenizer& tokenizer) {
  const std::size_t count = options.tested == 0 ? pairs.size() : std::min(options.tested, pairs.size());
  std::vector<TestSentence> sentences;
  for (const SentencePair& pair : std::span(pairs).first(count)) {
    TestSentence sentence{tokenizer.encode(pair.source), pair.target};
    sentence.source.resize(std::min(sentence.source.size(), options.longest));
    if (sentence.source.empty()) sentence.source = {kUnknown};  // nothing that counts as a word: there is no attention
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

Corpus make_corpus(const CorpusOptions& options) {
  const bool generated = options.files.folder.empty();
  const ParallelText text = generated ? generate_number_sentences(options.numbers) : read_parallel_text(options.files);
  std::vector<std::string> lines;
  for (const SentencePair& pair : text.train) lines.insert(lines.end(), {pair.source, pair.target});
  Corpus corpus{.tokenizer = Tokenizer(options.tokens, lines, options.vocabulary),
                .train = {},
                .mean_size = 0,
                .validation = {},
                .test = {}};
  const Tokenizer& tokenizer = corpus.tokenizer;
  std::size_t total = 0;
  for (const SentencePair& pair : text.train) {
    TokenPair tokens{tokenizer.encode(pair.source), tokenizer.encode(pair.target)};
    if (tokens.source.empty() || std::max(tokens.source.size(), tokens.target.size()) > options.longest) continue;
    total += tokens.size();
    corpus.train.push_back(std::move(tokens));
  }
  if (corpus.train.empty())
    refuse_file(generated ? "the generated text" : options.files.folder,
                fmt::format("holds no pair of sentences to train on of at most {} tokens", options.longest));
  corpus.mean_size = static_cast<double>(total) / static_cast<double>(corpus.train.size());
  std::ranges::stable_sort(corpus.train, {}, &TokenPair::size);
  corpus.validation = test_sentences(text.validation, options, tokenizer);
  corpus.test = test_sentences(text.test, options, tokenizer);
  return corpus;
}

}  // namespace

std::shared_ptr<const Corpus> load_corpus(const CorpusOptions& options) {
  static SharedData<Corpus> corpora;
  const std::string name =
      fmt::format("{}\n{}\n{}\n{} {} {} {} {} {}", options.files.folder, options.files.source, options.files.target,
                  options.numbers.most_numbers, static_cast<int>(options.numbers.spelling),
                  static_cast<int>(options.tokens), options.vocabulary, options.longest, options.tested);
  return corpora.get(name, [&] { return make_corpus(options); });
}

}  // namespace flockstep::tasks
