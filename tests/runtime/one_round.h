// A worker and a round without an agent: the calls that one makes, for tests of what rounds read and write.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engines/threads/engine.h"
#include "runtime/context.h"
#include "runtime/rounds/round_data.h"

namespace flockstep::runtime {

// The one worker of an engine, on the test's own thread.
class OneWorker : public testing::Test {
 protected:
  engines::threads::ThreadsWorld world_{1, "self", engines::threads::make_free_scheduler()};
  engines::threads::ThreadsEngine engine_{world_, 0};
  Context context_{engine_, base::Duration(600)};
  math::UpdateGuard guard_;
};

class OneRound {
 public:
  // Takes the contribution, in two chunks.
  OneRound(RoundData& data, std::size_t size, bool is_fresh) : data_(data), size_(size) {
    data.freeze(size, is_fresh);
    for (const Range chunk : chunks()) data.ready(chunk);
  }

  std::vector<float> contribution() const {
    std::vector<float> all;
    for (const Range chunk : chunks()) all.insert(all.end(), begin_of(chunk), begin_of(chunk) + chunk.size);
    return all;
  }

  // The average arrives, and the round is complete.
  void end_with(const std::vector<float>& average, int members) {
    for (const Range chunk : chunks()) {
      std::vector<float> spare(chunk.size);
      const std::span<float> landing = data_.landing(chunk, spare);
      std::ranges::copy(chunk.of(std::span(average)), landing.begin());
      data_.settle(chunk, landing);
    }
    data_.complete(members);
  }

 private:
  std::vector<Range> chunks() const { return {{0, size_ / 2}, {size_ / 2, size_ - size_ / 2}}; }
  const float* begin_of(Range chunk) const { return data_.contribution(chunk).data(); }

  RoundData& data_;
  std::size_t size_;
};

}  // namespace flockstep::runtime
