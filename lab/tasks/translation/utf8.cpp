#include "tasks/translation/utf8.h"

#include <algorithm>
#include <cstdint>

namespace flockstep::tasks {
namespace {

struct Character {
  std::uint32_t code;
  std::size_t bytes;  // 0: not UTF-8
};

constexpr Character kNone{0, 0};

// The first character of a text that is not empty. As RFC 3629: the shortest form, no surrogates, up to U+10FFFF.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const std::size_t bytes = byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : byte(0) < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return kNone;
  std::uint32_t code = byte(0) & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return kNone;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool is_longer_than_needed = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (is_longer_than_needed || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return kNone;
  return {code, bytes};
}

bool is_space(std::uint32_t code) {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = first_of(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const std::size_t bytes = std::max<std::size_t>(1, first_of(text).bytes);
    characters.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0, end = 0;
  const auto end_word = [&] {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  while (end < text.size()) {
    const Character character = first_of(text.substr(end));
    const std::size_t bytes = std::max<std::size_t>(1, character.bytes);
    if (character.bytes > 0 && is_space(character.code)) {
      end_word();
      begin = end + bytes;
    }
    end += bytes;
  }
  end_word();
  return words;
}

}  // namespace flockstep::tasks
