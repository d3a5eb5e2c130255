#include "tasks/translation/bpe.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "tasks/translation/utf8.h"

namespace flockstep::tasks {
namespace {

using Symbol = std::uint32_t;
using Pair = std::pair<Symbol, Symbol>;

constexpr Symbol kNoSymbol = ~Symbol{0};

struct Word {
  std::vector<Symbol> symbols;
  std::int64_t count;
};

// The most frequent first; ties go to the earlier symbols, so that the result is the same everywhere.
struct Candidate {
  std::int64_t count;
  Pair pair;

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  Learner(const WordCounts& words, std::size_t most) : most_(most) {
    add_characters(words);
    for (const auto& [text, count] : words) {
      Word word{{}, count};
      const std::string ended = text + " ";
      for (const std::string_view character : characters_of(ended)) word.symbols.push_back(symbol_of(character));
      words_.push_back(std::move(word));
      count_pairs(words_.size() - 1, 1);
    }
    for (const auto& [pair, count] : counts_) candidates_.push({count, pair});
  }

  Subwords learn() {
    while (result_.symbols.size() < most_ && !candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const std::int64_t count = counts_[best.pair];
      if (count < best.count) {  // it was so frequent once
        candidates_.push({count, best.pair});
        continue;
      }
      if (count < 2) break;
      merge(best.pair);
    }
    return std::move(result_);
  }

 private:
  void add_characters(const WordCounts& words) {
    std::map<std::string, std::int64_t, std::less<>> counts;
    for (const auto& [text, count] : words) {
      counts[" "] += count;
      for (const std::string_view character : characters_of(text)) counts[std::string(character)] += count;
    }
    std::vector<std::pair<std::int64_t, std::string>> sorted;
    for (const auto& [character, count] : counts) sorted.emplace_back(-count, character);
    std::ranges::sort(sorted);
    for (const auto& [count, character] : sorted)
      if (result_.symbols.size() < most_) add_symbol(character);
  }

  Symbol symbol_of(std::string_view text) const {
    const auto found = known_.find(std::string(text));
    return found == known_.end() ? kNoSymbol : found->second;
  }

  // Two merges may make the same text, which is one symbol then.
  Symbol add_symbol(const std::string& text) {
    const auto [place, is_new] = known_.try_emplace(text, static_cast<Symbol>(result_.symbols.size()));
    if (is_new) result_.symbols.push_back(text);
    return place->second;
  }

  void count_pairs(std::size_t index, std::int64_t sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const Pair pair{word.symbols[i], word.symbols[i + 1]};
      if (pair.first == kNoSymbol || pair.second == kNoSymbol) continue;
      counts_[pair] += sign * word.count;
      if (sign > 0) holders_[pair].push_back(static_cast<std::uint32_t>(index));
    }
  }

  void merge(const Pair& pair) {
    const std::string left = result_.symbols[pair.first], right = result_.symbols[pair.second];
    const Symbol joined = add_symbol(left + right);
    result_.merges.push_back({left, right});
    std::vector<std::uint32_t> holders = std::move(holders_[pair]);
    holders_.erase(pair);
    std::ranges::sort(holders);
    holders.erase(std::ranges::unique(holders).begin(), holders.end());
    std::set<Pair> grown;
    for (const std::uint32_t index : holders) {
      count_pairs(index, -1);
      std::vector<Symbol>& symbols = words_[index].symbols;
      std::size_t to = 0;
      for (std::size_t from = 0; from < symbols.size(); ++from) {
        const bool here = from + 1 < symbols.size() && Pair{symbols[from], symbols[from + 1]} == pair;
        symbols[to++] = here ? joined : symbols[from];
        from += here ? 1 : 0;
      }
      symbols.resize(to);
      count_pairs(index, 1);
      for (std::size_t i = 0; i + 1 < to; ++i)
        if (symbols[i] == joined || symbols[i + 1] == joined) grown.insert({symbols[i], symbols[i + 1]});
    }
    for (const Pair& next : grown)
      if (next.first != kNoSymbol && next.second != kNoSymbol) candidates_.push({counts_[next], next});
  }

  const std::size_t most_;
  Subwords result_;
  std::unordered_map<std::string, Symbol> known_;
  std::vector<Word> words_;
  std::map<Pair, std::int64_t> counts_;
  std::map<Pair, std::vector<std::uint32_t>> holders_;  // words in which the pair stands, or stood
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

Subwords learn_subwords(const WordCounts& words, std::size_t most) { return Learner(words, most).learn(); }

}  // namespace flockstep::tasks
