// Sentences in one language and what they mean in another: those of a user's files, or numbers in words.
//
// A folder holds train.en and train.de, line by line a sentence and its translation, test.en and test.de, and perhaps
// valid.en and valid.de; the endings are options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tasks/translation/number_words.h"

namespace flockstep::tasks {

struct SentencePair {
  std::string source, target;
};

// Validation sentences come from their own files; where there are none, every fiftieth pair of the training files is
// kept aside.
struct ParallelText {
  std::vector<SentencePair> train, validation, test;
};

struct TextFiles {
  std::string folder;
  std::string source = "en", target = "de";  // endings
};

std::vector<std::filesystem::path> files_of(const TextFiles& files);
// Pairs of which one side is blank are left out. Throws Error{bad_file} for text that is not UTF-8, for files that do
// not fit together and for those without a pair.
ParallelText read_parallel_text(const TextFiles& files);

struct NumberSentences {
  int most_numbers = 1;  // in a sentence, which has one to so many, each of one to six digits
  Spelling spelling = Spelling::together;
};
// Always the same. What is tested on is not trained on, except for lone numbers below a thousand.
ParallelText generate_number_sentences(const NumberSentences& options);

}  // namespace flockstep::tasks
