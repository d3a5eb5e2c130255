// Click logs as Criteo writes them, for tests.
#pragma once

#include <fmt/core.h>

#include <string>

#include "base/random.h"
#include "tasks/recommendation/criteo.h"

namespace flockstep::tasks {

inline ClickShape criteo_shape(std::uint32_t rows) {
  return {.numbers = kCriteoNumbers, .rows = std::vector<std::uint32_t>(kCriteoCategories, rows)};
}

// Every seventh field is empty; labels take turns.
inline std::string criteo_text(int lines, std::uint32_t seed = 1) {
  base::Random random(seed, base::Purpose::test);
  std::string text;
  for (int line = 0; line < lines; ++line) {
    text += line % 2 == 0 ? '0' : '1';
    for (std::size_t i = 0; i < kCriteoNumbers; ++i)
      text += random.below(7) == 0 ? "\t" : fmt::format("\t{}", static_cast<int>(random.below(1000)) - 3);
    for (std::size_t i = 0; i < kCriteoCategories; ++i)
      text += random.below(7) == 0 ? "\t" : fmt::format("\t{:08x}", random.bits());
    text += '\n';
  }
  return text;
}

}  // namespace flockstep::tasks
