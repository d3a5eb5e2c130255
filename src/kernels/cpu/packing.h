// The coarse formats in which numbers travel, with error feedback: what a format loses of one message is added to the
// next.
//
// int8: blocks of kPackedBlock numbers, the last of which may be shorter, each a float and behind it one signed byte
// per number. The float is a 127th of the block's largest magnitude, a byte the number in units of it, to nearest even.
// A block with a number that is not finite unpacks to NaN throughout, so that nobody takes it for one that is.
//
// Plain loops that the compiler turns into vectors: every operation is rounded on its own, so the bits do not depend on
// the processor.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/types.h"

namespace flockstep::kernels::cpu {

inline constexpr std::size_t kPackedBlock = 256;

constexpr std::size_t packed_bytes(std::size_t numbers) {
  return numbers + (numbers + kPackedBlock - 1) / kPackedBlock * sizeof(float);
}

// Packs x + lost, and keeps in `lost` what the format cannot hold of it: zero where the numbers are not finite. With an
// empty `lost` nothing is added or kept.
void pack(std::span<const float> x, std::span<float> lost, std::span<std::byte> packed);
void unpack(std::span<const std::byte> packed, std::span<float> x);

// The same for bfloat16.
void narrow(std::span<const float> x, std::span<float> lost, std::span<BFloat16> y);

}  // namespace flockstep::kernels::cpu
