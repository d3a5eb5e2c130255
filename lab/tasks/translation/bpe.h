// Byte pair encoding (Sennrich et al., 2016): the pairs of symbols that are worth a symbol of their own, learned from
// words. Symbols are characters first, and the space that ends every word.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace flockstep::tasks {

using WordCounts = std::map<std::string, std::int64_t, std::less<>>;

struct Merge {
  std::string left, right;

  bool operator==(const Merge&) const = default;
};

struct Subwords {
  std::vector<std::string> symbols;  // characters, most frequent first, then what merges make
  std::vector<Merge> merges;         // in the order in which they apply
};

constexpr std::size_t kLongestWord = 200;  // bytes: what is longer is no word, and would take long to encode

// At most so many symbols; rare characters are left out where there are more. Merges join the most frequent pair, as
// long as there is one that occurs twice; of equally frequent ones that of the earlier symbols.
Subwords learn_subwords(const WordCounts& words, std::size_t most);

}  // namespace flockstep::tasks
