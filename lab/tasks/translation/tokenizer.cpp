#include "tasks/translation/tokenizer.h"

#include <algorithm>

#include "tasks/translation/bleu.h"
#include "tasks/translation/bpe.h"
#include "tasks/translation/utf8.h"

namespace flockstep::tasks {
namespace {

std::vector<std::string> most_frequent(const WordCounts& words, std::size_t most) {
  std::vector<std::pair<std::int64_t, std::string_view>> sorted;
  for (const auto& [word, count] : words) sorted.emplace_back(-count, word);
  std::ranges::sort(sorted);
  std::vector<std::string> result;
  for (const auto& [count, word] : sorted)
    if (result.size() < most) result.push_back(std::string(word) + " ");
  return result;
}

}  // namespace

Tokenizer::Tokenizer(TokenKind kind, std::span<const std::string> lines, std::size_t most)
    : kind_(kind), texts_{"", "", "", "<unk> "} {
  WordCounts counts;
  for (const std::string& line : lines)
    for (const std::string& word : split(line))
      if (word.size() <= kLongestWord) ++counts[word];
  const std::size_t room = most - std::min(most, kReserved);
  const Subwords learned = kind == TokenKind::bpe ? learn_subwords(counts, room)
                                                  : Subwords{.symbols = most_frequent(counts, room), .merges = {}};
  for (const std::string& text : learned.symbols) {
    tokens_.emplace(text, static_cast<Token>(texts_.size()));
    texts_.push_back(text);
  }
  for (const Merge& merge : learned.merges)
    merges_.emplace(std::pair{token_of(merge.left), token_of(merge.right)},
                    Joined{merges_.size(), token_of(merge.left + merge.right)});
  for (const auto& [word, count] : counts) encoded_.emplace(word, encode_word(word));
}

std::vector<std::string> Tokenizer::split(std::string_view line) const {
  if (kind_ == TokenKind::words) return words_as_13a(line);
  const auto words = words_of(line);
  return {words.begin(), words.end()};
}

Token Tokenizer::token_of(std::string_view text) const {
  const auto found = tokens_.find(std::string(text));
  return found == tokens_.end() ? kUnknown : found->second;
}

Tokens Tokenizer::encode_word(const std::string& word) const {
  if (kind_ == TokenKind::words) return {token_of(word + " ")};
  if (word.size() > kLongestWord) return {kUnknown};
  const std::string ended = word + " ";
  Tokens tokens;
  for (const std::string_view character : characters_of(ended)) tokens.push_back(token_of(character));
  for (;;) {
    std::size_t best = merges_.size();
    Token joined = kUnknown;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = merges_.find({tokens[i], tokens[i + 1]});
      if (found == merges_.end() || found->second.rank >= best) continue;
      best = found->second.rank;
      joined = found->second.token;
    }
    if (best == merges_.size()) return tokens;
    std::size_t to = 0;
    for (std::size_t from = 0; from < tokens.size(); ++from) {
      const auto found = from + 1 < tokens.size() ? merges_.find({tokens[from], tokens[from + 1]}) : merges_.end();
      const bool here = found != merges_.end() && found->second.rank == best;
      tokens[to++] = here ? joined : tokens[from];
      from += here ? 1 : 0;
    }
    tokens.resize(to);
  }
}

Tokens Tokenizer::encode(std::string_view line) const {
  Tokens tokens;
  for (const std::string& word : split(line)) {
    const auto known = encoded_.find(word);
    const Tokens& parts = known == encoded_.end() ? encode_word(word) : known->second;
    tokens.insert(tokens.end(), parts.begin(), parts.end());
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  std::string line;
  for (const Token token : tokens)
    if (const auto index = static_cast<std::size_t>(token); index < texts_.size()) line += texts_[index];
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

}  // namespace flockstep::tasks
