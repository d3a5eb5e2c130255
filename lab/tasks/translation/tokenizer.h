// From sentences to tokens and back: whole words, or subwords by byte pair encoding. One vocabulary for both languages.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/settings.h"

namespace flockstep::tasks {

enum class TokenKind {
  words,  // the most frequent ones, split as BLEU splits them; others are unknown
  bpe,
};
inline constexpr std::array<base::Choice<TokenKind>, 2> kTokenKinds{
    {{"words", TokenKind::words}, {"bpe", TokenKind::bpe}}};

using Token = std::int32_t;
using Tokens = std::vector<Token>;

// What every vocabulary begins with.
constexpr Token kPadding = 0, kBegin = 1, kEnd = 2, kUnknown = 3;
constexpr std::size_t kReserved = 4;

class Tokenizer {
 public:
  // Learns at most `most` tokens, the reserved ones included, from these lines.
  Tokenizer(TokenKind kind, std::span<const std::string> lines, std::size_t most);

  std::size_t size() const { return texts_.size(); }
  Tokens encode(std::string_view line) const;  // without kBegin and kEnd
  // Words with one space between them; tokens without a text are left out.
  std::string decode(std::span<const Token> tokens) const;

 private:
  struct PairHash {
    std::size_t operator()(const std::pair<Token, Token>& pair) const {
      return static_cast<std::size_t>(pair.first) << 32 ^ static_cast<std::size_t>(pair.second);
    }
  };
  struct Joined {
    std::size_t rank;
    Token token;
  };
  std::vector<std::string> split(std::string_view line) const;
  Token token_of(std::string_view text) const;
  Tokens encode_word(const std::string& word) const;

  TokenKind kind_;
  std::vector<std::string> texts_;  // those that end a word have a space behind it
  std::unordered_map<std::string, Token> tokens_;
  std::unordered_map<std::pair<Token, Token>, Joined, PairHash> merges_;
  std::unordered_map<std::string, Tokens> encoded_;  // the words of the lines that were learned from
};

}  // namespace flockstep::tasks
