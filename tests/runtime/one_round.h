// A worker and a round without an agent: the calls that one makes, for tests of what rounds read and write.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "engines/registry.h"
#include "runtime/rounds/round_data.h"

namespace flockstep::runtime {

// A Scene is made of an engine.
template <typename Scene>
void alone_on_an_engine(const std::function<void(Scene&)>& body) {
  engines::find_backend("self").run({}, [&](engines::Engine& engine) {
    Scene scene(engine);
    body(scene);
  });
}

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
