// What calls of the public interface throw, on all workers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/random.h"
#include "flockstep/flockstep.h"

namespace flockstep::test {

using Floats = std::vector<float>;

// What each worker's `body` throws, in rank order; "" if it throws nothing.
inline std::vector<std::string> sentences_of(int workers, ErrorCode code, const std::function<void(Worker&)>& body) {
  std::mutex mutex;
  std::vector<std::string> sentences(static_cast<std::size_t>(workers));
  launch({.engine = "threads", .workers = workers}, [&](Worker& worker) {
    try {
      body(worker);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      const std::lock_guard lock(mutex);
      sentences[static_cast<std::size_t>(worker.rank())] = error.what();
    }
  });
  return sentences;
}

inline Floats drawn(int rank, int step, std::size_t size) {
  Floats numbers(size);
  base::Random(3, base::Purpose::test, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step))
      .fill_uniform(numbers, -1, 1);
  return numbers;
}

}  // namespace flockstep::test
