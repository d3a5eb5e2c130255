#include "base/random.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/portable_math.h"

namespace flockstep::base {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

// Philox on several counters at once, word by word: a form that compilers turn into vector instructions.
template <std::size_t Lanes>
void philox_lanes(std::uint32_t (&words)[4][Lanes], std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      const std::uint64_t p0 = std::uint64_t{kMultiplier0} * words[0][lane],
                          p1 = std::uint64_t{kMultiplier1} * words[2][lane];
      words[0][lane] = static_cast<std::uint32_t>(p1 >> 32) ^ words[1][lane] ^ key[0];
      words[1][lane] = static_cast<std::uint32_t>(p1);
      words[2][lane] = static_cast<std::uint32_t>(p0 >> 32) ^ words[3][lane] ^ key[1];
      words[3][lane] = static_cast<std::uint32_t>(p0);
    }
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  std::uint32_t words[4][1] = {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
  philox_lanes(words, key);
  return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

std::uint32_t Random::bits() {
  if (left_ == 0) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    left_ = block_.size();
  }
  return block_[block_.size() - left_--];
}

double Random::uniform() {
  const std::uint64_t high = bits(), low = bits();
  return static_cast<double>((high << 21) ^ (low >> 11)) * 0x1p-53;
}

std::uint32_t Random::below(std::uint32_t bound) {
  check(bound > 0, "a positive bound");
  const std::uint32_t rejected = (0U - bound) % bound;  // 2^32 mod bound: values below it would be drawn too often
  std::uint32_t drawn = bits();
  while (drawn < rejected) drawn = bits();
  return drawn % bound;
}

double Random::normal() {
  while (true) {  // Marsaglia's polar method: needs log and sqrt only
    const double u = 2 * uniform() - 1, v = 2 * uniform() - 1, s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * portable_log(s) / s);
  }
}

double Random::lognormal_mean_one(double sigma) { return portable_exp(sigma * normal() - sigma * sigma / 2); }

void Random::fill_uniform(std::span<float> out, float low, float high) {
  constexpr std::size_t kLanes = 16;
  const float scale = (high - low) * 0x1p-24f;
  left_ = 0;
  for (std::size_t begin = 0; begin < out.size(); begin += 4 * kLanes) {
    std::uint32_t words[4][kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      words[0][lane] = counter_[0] + static_cast<std::uint32_t>(lane);
      for (std::size_t word = 1; word < 4; ++word) words[word][lane] = counter_[word];
    }
    philox_lanes(words, key_);
    float values[4 * kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      for (std::size_t word = 0; word < 4; ++word)
        values[4 * lane + word] = low + scale * static_cast<float>(static_cast<std::int32_t>(words[word][lane] >> 8));
    const std::size_t size = std::min(4 * kLanes, out.size() - begin);
    std::copy_n(values, size, out.data() + begin);
    counter_[0] += static_cast<std::uint32_t>((size + 3) / 4);
  }
}

}  // namespace flockstep::base
