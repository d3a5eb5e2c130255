// Files that tests give to tasks to read: a folder of their own, and what damages them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/random.h"
#include "flockstep/error.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"

namespace flockstep::tasks {

inline std::string refusal(const std::function<void()>& action) { return test::refusal(ErrorCode::bad_file, action); }

// One to four changes of a byte, or of a stretch that is lost, doubled, or overwritten by another.
inline std::string damaged(std::string bytes, base::Random& random) {
  for (std::uint32_t changes = 1 + random.below(4); changes > 0 && !bytes.empty(); --changes) {
    const auto below = [&](std::size_t bound) { return random.below(static_cast<std::uint32_t>(bound)); };
    const std::size_t place = below(bytes.size()), size = 1 + below(std::min<std::size_t>(40, bytes.size() - place));
    switch (random.below(5)) {
      case 0: bytes[place] = static_cast<char>(random.below(256)); break;
      case 1: bytes[place] = static_cast<char>(bytes[place] ^ (1 << random.below(8))); break;
      case 2: bytes.erase(place, size); break;
      case 3: bytes.insert(place, bytes.substr(place, size)); break;
      default: bytes.replace(place, size, bytes.substr(below(bytes.size()), size));
    }
  }
  return bytes;
}

// Reads damaged copies of `good`. Each is read or refused with one printable sentence that starts with `name`, whatever
// it holds. Returns how many were refused.
inline int refused_of_damaged(const std::string& good, int copies, const std::string& name,
                              const std::function<void(const std::string& bytes)>& read) {
  base::Random random(8, base::Purpose::test);
  int refused = 0;
  for (int copy = 0; copy < copies; ++copy) {
    const std::string bytes = damaged(good, random), sentence = refusal([&] { read(bytes); });
    EXPECT_TRUE(sentence.empty() || sentence.starts_with(name)) << sentence;
    EXPECT_TRUE(std::ranges::all_of(sentence, [](char c) { return c >= ' ' && c <= '~'; })) << sentence;
    refused += sentence.empty() ? 0 : 1;
  }
  return refused;
}

}  // namespace flockstep::tasks
