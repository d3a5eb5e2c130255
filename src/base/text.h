// Sentences out of parts, without fmt and without streams: torch brings an fmt of its own, and a stream that is made by
// one C++ runtime and written to by another crashes, as happens where a compiler links its library statically.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace flockstep::base {

// "1 worker", "8 workers", "2 processes".
inline std::string counted(std::integral auto count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count != 1) text += noun.ends_with('s') ? "es" : "s";
  return text;
}

// "[2, 3]".
template <typename Numbers>
std::string bracketed(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text.empty() ? "[]" : text + "]";
}

// Of what a library tells: its first line is the reason, and what follows where it was thrown.
inline std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

inline std::string text_of_part(std::string_view part) { return std::string(part); }
inline std::string text_of_part(std::integral auto part) { return std::to_string(part); }

// concatenated("worker ", 3, " is late") is "worker 3 is late".
template <typename... Parts>
std::string concatenated(const Parts&... parts) {
  std::string text;
  (text.append(text_of_part(parts)), ...);
  return text;
}

}  // namespace flockstep::base
