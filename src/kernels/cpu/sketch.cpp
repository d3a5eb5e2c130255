// The count sketch and the sum of squares, in one read.
//
// A chunk falls into pieces that lie side by side in z: two of them where m is 1024. A piece is added as vectors that
// begin on multiples of their length in z, which is written, so that they are aligned if z is; those of x are not. The
// first and the last vector of a piece overlap others and add -0.0 there, which leaves every number as it is. So each
// bin adds its numbers one by one in their order, and the bits of z depend on no vector's width.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sketch.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd_inl.h"
#include "kernels/cpu/wide.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels::cpu {
namespace HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<Floats>;
using WordVector = hn::Vec<Words>;

constexpr std::size_t kRow = 32;                 // numbers that have the same bit of the chunk's 32 words
constexpr std::size_t kVectors = kRow / kLanes;  // in a row
constexpr std::size_t kSums = std::min<std::size_t>(4, kVectors);
constexpr std::size_t kRunRows = kChain * kSums / kVectors;  // rows whose squares are added in float
static_assert(kRow % kLanes == 0);

// How far ahead numbers are asked for. On Zen 4 anything up to 1 KiB reads at the same speed; with 4 KiB it was a third
// slower.
template <typename T>
constexpr std::size_t kAhead = 512 / sizeof(T);

HWY_INLINE WordVector mix(WordVector n, SketchKey key) {
  const Words d;
  WordVector h = hn::Add(hn::Mul(n, hn::Set(d, 0x9E3779B1u)), hn::Set(d, key.k0));
  h = hn::Xor(h, hn::ShiftRight<16>(h));
  h = hn::Add(hn::Mul(h, hn::Set(d, 0x85EBCA6Bu)), hn::Set(d, key.k1));
  h = hn::Xor(h, hn::ShiftRight<13>(h));
  h = hn::Mul(h, hn::Set(d, 0xC2B2AE35u));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

// The signs of a chunk, for vectors that begin anywhere.
class Signs {
 public:
  HWY_INLINE Signs(std::uint32_t chunk, SketchKey key) {
    const Words d;
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kVectors; ++v) {
      const WordVector words = mix(hn::Iota(d, static_cast<std::uint32_t>(chunk * kRow + v * kLanes)), key);
      hn::Store(words, d, words_ + v * kLanes);
      hn::Store(hn::ShiftLeft<1>(words), d, words_ + kRow + v * kLanes);
    }
  }
  // Words whose highest bits are the signs of the chunk's elements r and following.
  HWY_INLINE WordVector words(std::size_t r) const {
    return hn::ShiftLeftSame(hn::LoadU(Words(), words_ + r % kRow), static_cast<int>(r / kRow));
  }
  HWY_INLINE float applied(std::size_t r, float number) const {
    const std::uint32_t sign = (words_[r % kRow] << (r / kRow)) & 0x80000000u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) ^ sign);
  }

 private:
  HWY_ALIGN std::uint32_t words_[2 * kRow];  // those of a row, and of the next one
};

HWY_INLINE FloatVector with_signs(FloatVector numbers, WordVector words) {
  const Words d;
  return hn::BitCast(Floats(), hn::Xor(hn::BitCast(d, numbers), hn::And(words, hn::Set(d, 0x80000000u))));
}

struct Squares {
  FloatVector sums[4];

  HWY_INLINE Squares() {
#pragma GCC unroll 4
    for (auto& sum : sums) sum = hn::Zero(Floats());
  }
  HWY_INLINE void add(std::size_t v, FloatVector numbers) {
    sums[v % kSums] = hn::MulAdd(numbers, numbers, sums[v % kSums]);
  }
  HWY_INLINE void add_to(double* HWY_RESTRICT doubles) const {
    add_to_four(sums[0], sums[1], sums[2], sums[3], doubles);
  }
};

// Elements that follow each other in a chunk, and their bins, which do so too.
template <typename T>
struct Piece {
  const T* from;
  float* HWY_RESTRICT out;
  std::size_t r;  // place of the first one in its chunk

  HWY_INLINE Piece operator+(std::size_t k) const { return {from + k, out + k, r + k}; }
};

// At most kRunRows rows.
template <typename T>
HWY_INLINE void add_rows(Piece<T> piece, std::size_t rows, std::size_t ahead, const Signs& signs,
                         double* HWY_RESTRICT sums) {
  const Floats d;
  Squares squares;
  WordVector words[kVectors];
#pragma GCC unroll 32
  for (std::size_t v = 0; v < kVectors; ++v) words[v] = signs.words(piece.r + v * kLanes);
  const T* from = piece.from;
  float* HWY_RESTRICT out = piece.out;
  for (const T* const end = from + rows * kRow; from != end; from += kRow, out += kRow) {
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kRow; k += kCacheLine / sizeof(T))
      prefetch(reinterpret_cast<const char*>(from + k + ahead));
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kVectors; ++v) {
      const FloatVector numbers = in_register(load(d, from + v * kLanes));
      squares.add(v, numbers);
      float* const bins = out + v * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(d, bins), with_signs(numbers, words[v])), d, bins);
      words[v] = hn::ShiftLeft<1>(words[v]);
    }
  }
  squares.add_to(sums);
}

// Lanes `first` to `last` - 1 of the vector at the piece's beginning.
template <typename T>
HWY_INLINE void add_lanes(Piece<T> piece, std::size_t first, std::size_t last, const Signs& signs,
                          FloatVector& square) {
  const Floats d;
  const auto used = hn::AndNot(hn::FirstN(d, first), hn::FirstN(d, last));
  const FloatVector numbers = hn::IfThenElseZero(used, load(d, piece.from));
  const FloatVector added = hn::IfThenElse(used, with_signs(numbers, signs.words(piece.r)), hn::Set(d, -0.0f));
  square = hn::MulAdd(numbers, numbers, square);
  hn::StoreU(hn::Add(hn::LoadU(d, piece.out), added), d, piece.out);
}

template <typename T>
HWY_INLINE void add_few(Piece<T> piece, std::size_t count, const Signs& signs, double* HWY_RESTRICT sums) {
  for (std::size_t k = 0; k < count; ++k) {
    const float number = to_float(piece.from[k]);
    piece.out[k] += signs.applied(piece.r + k, number);
    sums[0] += static_cast<double>(number) * static_cast<double>(number);
  }
}

template <typename T>
HWY_INLINE void add_piece(Piece<T> piece, std::size_t bin, std::size_t count, std::size_t ahead, const Signs& signs,
                          double* HWY_RESTRICT sums) {
  if (count < 2 * kLanes) return add_few(piece, count, signs, sums);
  // By the bin and not by its address, on which no bits of the squares' sum may depend.
  const std::size_t head = -bin % kLanes;
  std::size_t k = head;
  while (count - k >= kRow) {
    const std::size_t rows = std::min(kRunRows, (count - k) / kRow);
    add_rows(piece + k, rows, ahead, signs, sums);
    k += rows * kRow;
  }
  FloatVector squares[3] = {hn::Zero(Floats()), hn::Zero(Floats()), hn::Zero(Floats())};
  for (; count - k >= kLanes; k += kLanes) add_lanes(piece + k, 0, kLanes, signs, squares[0]);
  if (head > 0) add_lanes(piece, 0, head, signs, squares[1]);
  if (k < count) add_lanes(piece + (count - kLanes), kLanes - (count - k), kLanes, signs, squares[2]);
  add_to_four(squares[0], squares[1], squares[2], hn::Zero(Floats()), sums);
}

template <typename T>
double sweep(std::span<const T> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  const std::size_t m = z.size();
  HWY_ALIGN double sums[kFourLanes] = {};
  for (std::size_t begin = 0; begin < x.size(); begin += kSketchChunk) {
    const std::size_t size = std::min(kSketchChunk, x.size() - begin);
    const std::size_t ahead = begin + kSketchChunk + kAhead<T> <= x.size() ? kAhead<T> : 0;
    const std::uint64_t l = std::uint64_t{first_chunk} * kSketchChunk + begin;
    const Signs signs(static_cast<std::uint32_t>(l / kSketchChunk), key);
    for (std::size_t r = 0; r < size;) {
      const std::size_t bin = sketch_bin(l + r, key, m);
      // Up to the end of z, of the block of m elements, and of the chunk.
      const std::size_t count = std::min(m - std::max(bin, static_cast<std::size_t>(l + r) & (m - 1)), size - r);
      add_piece(Piece<T>{x.data() + begin + r, z.data() + bin, r}, bin, count, ahead, signs, sums);
      r += count;
    }
  }
  double square = 0;
  for (const double sum : sums) square += sum;
  return square;
}

double sketch_float(std::span<const float> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  return sweep(x, key, first_chunk, z);
}
double sketch_bfloat16(std::span<const BFloat16> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  return sweep(x, key, first_chunk, z);
}

}  // namespace HWY_NAMESPACE
}  // namespace flockstep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flockstep::kernels::cpu {

HWY_EXPORT(sketch_float);
HWY_EXPORT(sketch_bfloat16);

namespace {
void check_bins(std::span<float> z) { base::check(std::has_single_bit(z.size()), "as many bins as a power of two"); }

template <typename T>
double taken_again_if_lost(std::span<const T> x, double square) {
  if (!wide::is_lost(square, x.data(), x.size(), 1)) return square;
  const std::array<const T*, 1> row{x.data()};
  wide::gram<T>(row, x.size(), {&square, 1});
  return square;
}
}  // namespace

double sketch(std::span<const float> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  check_bins(z);
  return taken_again_if_lost(x, HWY_DYNAMIC_DISPATCH(sketch_float)(x, key, first_chunk, z));
}
double sketch(std::span<const BFloat16> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  check_bins(z);
  return taken_again_if_lost(x, HWY_DYNAMIC_DISPATCH(sketch_bfloat16)(x, key, first_chunk, z));
}

}  // namespace flockstep::kernels::cpu
#endif
