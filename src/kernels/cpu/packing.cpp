#include "kernels/cpu/packing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace flockstep::kernels::cpu {
namespace {

constexpr float kSteps = 127;
// Adding and taking it away rounds anything below 2^22 to a whole number, to nearest even.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
constexpr std::uint32_t kAllButSign = 0x7FFFFFFFu, kInfinity = 0x7F800000u;

// Magnitudes of floats are ordered as their bits are; those of infinity and NaN come last.
std::uint32_t largest_magnitude(const float* __restrict x, std::size_t n) {
  std::uint32_t largest = 0;
  for (std::size_t k = 0; k < n; ++k) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[k]) & kAllButSign);
  return largest;
}

// Returns the unit of the bytes.
float pack_block(const float* __restrict x, std::size_t n, std::int8_t* __restrict bytes) {
  const std::uint32_t largest = largest_magnitude(x, n);
  const float unit = std::bit_cast<float>(largest) / kSteps;
  if (largest >= kInfinity || unit < std::numeric_limits<float>::min()) {  // its reciprocal might not be finite
    std::fill_n(bytes, n, std::int8_t{0});
    return largest >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float inverse = 1 / unit;
  for (std::size_t k = 0; k < n; ++k) {
    const float scaled = x[k] * inverse;
    const float rounded = (scaled + kRounder) - kRounder;
    bytes[k] = static_cast<std::int8_t>(static_cast<std::int32_t>(rounded));
  }
  return unit;
}

void unpack_block(float unit, const std::int8_t* __restrict bytes, std::size_t n, float* __restrict x) {
  for (std::size_t k = 0; k < n; ++k) x[k] = unit * static_cast<float>(bytes[k]);
}

// Calls action(offset of the numbers, how many, where the block begins).
template <typename F>
void each_block(std::size_t numbers, const F& action) {
  for (std::size_t begin = 0; begin < numbers; begin += kPackedBlock)
    action(begin, std::min(kPackedBlock, numbers - begin), begin / kPackedBlock * (kPackedBlock + sizeof(float)));
}

}  // namespace

void pack(std::span<const float> x, std::span<float> lost, std::span<std::byte> packed) {
  base::check(packed.size() == packed_bytes(x.size()), "room for the packed numbers");
  base::check(lost.empty() || lost.size() == x.size(), "a place for what is lost of every number");
  std::array<float, kPackedBlock> sums;
  each_block(x.size(), [&](std::size_t begin, std::size_t n, std::size_t at) {
    const float* numbers = x.data() + begin;
    if (!lost.empty()) {
      for (std::size_t k = 0; k < n; ++k) sums[k] = numbers[k] + lost[begin + k];
      numbers = sums.data();
    }
    auto* const bytes = reinterpret_cast<std::int8_t*>(packed.data() + at + sizeof(float));
    const float unit = pack_block(numbers, n, bytes);
    std::memcpy(packed.data() + at, &unit, sizeof(unit));
    if (lost.empty()) return;
    float* const rest = lost.data() + begin;
    if (std::isnan(unit))
      std::fill_n(rest, n, 0.0f);
    else
      for (std::size_t k = 0; k < n; ++k) {
        const float held = unit * static_cast<float>(bytes[k]);
        rest[k] = numbers[k] - held;
      }
  });
}

void unpack(std::span<const std::byte> packed, std::span<float> x) {
  base::check(packed.size() == packed_bytes(x.size()), "packed numbers as many as are wanted");
  each_block(x.size(), [&](std::size_t begin, std::size_t n, std::size_t at) {
    float unit = 0;
    std::memcpy(&unit, packed.data() + at, sizeof(unit));
    unpack_block(unit, reinterpret_cast<const std::int8_t*>(packed.data() + at + sizeof(float)), n, x.data() + begin);
  });
}

void narrow(std::span<const float> x, std::span<float> lost, std::span<BFloat16> y) {
  base::check(lost.size() == x.size() && y.size() == x.size(), "spans of equal sizes");
  for (std::size_t k = 0; k < x.size(); ++k) {
    const float sum = x[k] + lost[k];
    y[k] = to_bfloat16(sum);
    const float rest = sum - to_float(y[k]);
    lost[k] = std::isfinite(rest) ? rest : 0.0f;
  }
}

}  // namespace flockstep::kernels::cpu
