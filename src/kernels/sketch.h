// The count sketch of a model's elements: which sign and which bin each element has. Every implementation follows this
// definition to the bit; the sums are in cpu/kernels.h. All arithmetic is on 32 bits and wraps around.
//
// Element k of a bucket is element l = 1024 first_chunk + k of the model, for every bucket begins on a chunk of 1024.
//
//   mix(n, a, b)  h = n 0x9E3779B1 + a;  h ^= h >> 16;  h = h 0x85EBCA6B + b;  h ^= h >> 13;  h *= 0xC2B2AE35;
//                 h ^= h >> 16
//   sign          chunk = l / 1024, r = l % 1024: bit 31 - r / 32 of mix(32 chunk + r % 32, k0, k1), set for minus
//   bin           (l + mix(l / m, k1, k0)) mod m, of m bins, a power of two
//
//   z[bin(l)] += sign(l) g[l]
//
// A block of m consecutive elements is rotated as a whole, so it adds one element to each bin, and vectors of elements
// stay together. Signs are independent from element to element, and with them E<z_x, z_y> = <x, y> over keys, and the
// variance is at most (||x||^2 ||y||^2 + <x, y>^2) / m or so: the elements of one block never share a bin.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flockstep::kernels {

constexpr std::size_t kSketchChunk = 1024;

// What signs and bins of one step are drawn with.
struct SketchKey {
  std::uint32_t k0, k1;

  friend bool operator==(const SketchKey&, const SketchKey&) = default;
};

SketchKey sketch_key(std::uint64_t seed, std::uint32_t step);

// How many chunks a bucket of n numbers takes: the next one begins that much later.
constexpr std::uint32_t sketch_chunks(std::size_t n) {
  return static_cast<std::uint32_t>((n + kSketchChunk - 1) / kSketchChunk);
}

constexpr std::uint32_t sketch_mix(std::uint32_t n, std::uint32_t a, std::uint32_t b) {
  std::uint32_t h = n * 0x9E3779B1u + a;
  h ^= h >> 16;
  h = h * 0x85EBCA6Bu + b;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

// The bit to xor into the float of element `l`: its sign bit or none.
constexpr std::uint32_t sketch_sign(std::uint64_t l, SketchKey key) {
  const auto chunk = static_cast<std::uint32_t>(l / kSketchChunk), r = static_cast<std::uint32_t>(l % kSketchChunk);
  return (sketch_mix(chunk * 32 + r % 32, key.k0, key.k1) << (r / 32)) & 0x80000000u;
}

// `m` is a power of two.
constexpr std::size_t sketch_bin(std::uint64_t l, SketchKey key, std::size_t m) {
  return static_cast<std::size_t>(l + sketch_mix(static_cast<std::uint32_t>(l / m), key.k1, key.k0)) & (m - 1);
}

}  // namespace flockstep::kernels
