#include "tasks/translation/number_words.h"

#include <fmt/ranges.h>

#include <vector>

namespace flockstep::tasks {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::array<std::string_view, 20> kEnglishSmall{
    "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
    "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> kEnglishTens{"",      "",      "twenty",  "thirty", "forty",
                                                        "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array<std::string_view, 20> kGermanSmall{
    "null", "eins", "zwei",  "drei",     "vier",     "fünf",     "sechs",    "sieben",   "acht",     "neun",
    "zehn", "elf",  "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
constexpr std::array<std::string_view, 10> kGermanTens{"",        "",        "zwanzig", "dreißig", "vierzig",
                                                       "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};

void add_english(std::vector<std::string>& words, std::uint32_t number, char joint) {
  if (number >= 100) {
    words.emplace_back(kEnglishSmall[number / 100]);
    words.emplace_back("hundred");
  }
  const std::uint32_t rest = number % 100;
  if (rest == 0) return;
  if (rest < 20)
    words.emplace_back(kEnglishSmall[rest]);
  else if (rest % 10 == 0)
    words.emplace_back(kEnglishTens[rest / 10]);
  else
    words.push_back(fmt::format("{}{}{}", kEnglishTens[rest / 10], joint, kEnglishSmall[rest % 10]));
}

// Before another part "eins" is "ein".
std::string_view german_digit(std::uint32_t digit) { return digit == 1 ? "ein" : kGermanSmall[digit]; }

void add_german(Words& words, std::uint32_t number, bool is_last) {
  if (number >= 100) {
    words.push_back(german_digit(number / 100));
    words.push_back("hundert");
  }
  const std::uint32_t rest = number % 100;
  if (rest == 0) return;
  if (rest < 20) {
    words.push_back(is_last ? kGermanSmall[rest] : german_digit(rest));
    return;
  }
  if (rest % 10 != 0) {
    words.push_back(german_digit(rest % 10));
    words.push_back("und");
  }
  words.push_back(kGermanTens[rest / 10]);
}

}  // namespace

std::string english_number(std::uint32_t number, Spelling spelling) {
  if (number == 0) return std::string(kEnglishSmall[0]);
  const char joint = spelling == Spelling::together ? '-' : ' ';
  std::vector<std::string> words;
  if (number >= 1000) {
    add_english(words, number / 1000, joint);
    words.emplace_back("thousand");
  }
  add_english(words, number % 1000, joint);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string german_number(std::uint32_t number, Spelling spelling) {
  if (number == 0) return std::string(kGermanSmall[0]);
  Words words;
  if (number >= 1000) {
    add_german(words, number / 1000, false);
    words.push_back("tausend");
  }
  add_german(words, number % 1000, true);
  return fmt::format("{}", fmt::join(words, spelling == Spelling::together ? "" : " "));
}

}  // namespace flockstep::tasks
