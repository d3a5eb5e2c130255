// Numbers in English and German words, from 0 to 999,999.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/settings.h"

namespace flockstep::tasks {

constexpr std::uint32_t kNumbers = 1'000'000;  // below this

enum class Spelling {
  together,  // as the languages do: twenty-one, einundzwanzig
  apart,     // every part is a word: twenty one, ein und zwanzig
};
inline constexpr std::array<base::Choice<Spelling>, 2> kSpellings{
    {{"together", Spelling::together}, {"apart", Spelling::apart}}};

// 1,121: one thousand one hundred twenty-one, eintausendeinhunderteinundzwanzig.
std::string english_number(std::uint32_t number, Spelling spelling = Spelling::together);
std::string german_number(std::uint32_t number, Spelling spelling = Spelling::together);

}  // namespace flockstep::tasks
