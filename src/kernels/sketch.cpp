// The count sketch and the sum of squares, in one read.
//
// Works on rows of 32 numbers. Their 32 words of signs are made once per chunk; moving to the next row shifts each by
// one bit. A row lies side by side in z too, so it is added as vectors, but for the few rows that the end of z or of a
// block cuts. Every bin adds its numbers one by one in their order, so the bits of z depend on no vector's width.
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sketch.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "base/random.h"
#include "kernels/kernels.h"
#include "kernels/simd_inl.h"
#include "kernels/wide.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels {
namespace HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<Floats>;
using WordVector = hn::Vec<Words>;

constexpr std::size_t kRow = 32;
constexpr std::size_t kVectors = kRow / kLanes;  // in a row
constexpr std::size_t kSums = std::min<std::size_t>(4, kVectors);
constexpr std::size_t kRunRows = kChain * kSums / kVectors;  // rows whose squares are added in float
static_assert(kRow % kLanes == 0 && kSketchChunk / kRow % kRunRows == 0);

// Numbers between the one that is worked on and the one that is asked for.
constexpr std::size_t kAhead = kSketchChunk;

// The words whose highest bits are the signs of a row.
struct Signs {
  WordVector words[kVectors];

  HWY_INLINE Signs(std::uint32_t chunk, SketchKey key) {
    const Words d;
    const WordVector a = hn::Set(d, key.k0), b = hn::Set(d, key.k1);
    // As sketch_mix.
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kVectors; ++v) {
      const WordVector n = hn::Iota(d, static_cast<std::uint32_t>(chunk * kRow + v * kLanes));
      WordVector h = hn::Add(hn::Mul(n, hn::Set(d, 0x9E3779B1u)), a);
      h = hn::Xor(h, hn::ShiftRight<16>(h));
      h = hn::Add(hn::Mul(h, hn::Set(d, 0x85EBCA6Bu)), b);
      h = hn::Xor(h, hn::ShiftRight<13>(h));
      h = hn::Mul(h, hn::Set(d, 0xC2B2AE35u));
      words[v] = hn::Xor(h, hn::ShiftRight<16>(h));
    }
  }
  HWY_INLINE void next() {
#pragma GCC unroll 32
    for (auto& word : words) word = hn::ShiftLeft<1>(word);
  }
  HWY_INLINE FloatVector applied(std::size_t v, FloatVector numbers) const {
    const Words d;
    const auto bits = hn::And(words[v], hn::Set(d, 0x80000000u));
    return hn::BitCast(Floats(), hn::Xor(hn::BitCast(d, numbers), bits));
  }
};

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

// The bins, and where elements belong among them.
struct Bins {
  float* HWY_RESTRICT z;
  std::size_t m;
  SketchKey key;

  struct Place {
    std::size_t bin;
    std::size_t together;  // this many elements lie side by side from there on
  };
  HWY_INLINE Place place(std::uint64_t l) const {
    const std::size_t bin = sketch_bin(l, key, m);
    return {bin, m - std::max(bin, static_cast<std::size_t>(l) & (m - 1))};
  }
  // Adds elements l to l + count - 1 wherever they belong.
  void add(const float* numbers, std::size_t count, std::uint64_t l) const {
    while (count > 0) {
      const auto [bin, together] = place(l);
      const std::size_t size = std::min(count, together);
      for (std::size_t i = 0; i < size; ++i) z[bin + i] += numbers[i];
      numbers += size;
      l += size;
      count -= size;
    }
  }
};

// The row at `from`, with its signs, in `out`.
template <typename T>
HWY_INLINE void sign_row(const T* from, Signs& signs, Squares& squares, float* HWY_RESTRICT out) {
  const Floats d;
#pragma GCC unroll 32
  for (std::size_t v = 0; v < kVectors; ++v) {
    const FloatVector numbers = in_register(load(d, from + v * kLanes));
    squares.add(v, numbers);
    hn::Store(signs.applied(v, numbers), d, out + v * kLanes);
  }
  signs.next();
}

// Rows that lie side by side from `out` on.
template <typename T>
HWY_INLINE void add_rows(const T* from, std::size_t rows, std::size_t ahead, Signs& signs, Squares& squares,
                         float* HWY_RESTRICT out) {
  const Floats d;
  for (const T* const end = from + rows * kRow; from != end; from += kRow, out += kRow) {
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kRow; k += kCacheLine / sizeof(T))
      prefetch(reinterpret_cast<const char*>(from + k + ahead));
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kVectors; ++v) {
      const FloatVector numbers = in_register(load(d, from + v * kLanes));
      squares.add(v, numbers);
      float* const bins = out + v * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(d, bins), signs.applied(v, numbers)), d, bins);
    }
    signs.next();
  }
}

// At most kRunRows rows from element `l` on.
template <typename T>
HWY_INLINE void add_run(const T* from, std::size_t rows, std::uint64_t l, std::size_t ahead, Signs& signs,
                        const Bins& bins, double* HWY_RESTRICT sums) {
  Squares squares;
  while (rows > 0) {
    const auto [bin, together] = bins.place(l);
    std::size_t done = std::min(rows, together / kRow);
    if (done > 0) {
      add_rows(from, done, ahead, signs, squares, bins.z + bin);
    } else {
      done = 1;
      HWY_ALIGN float row[kRow];
      sign_row(from, signs, squares, row);
      bins.add(row, kRow, l);
    }
    rows -= done;
    from += done * kRow;
    l += done * kRow;
  }
  squares.add_to(sums);
}

// The last numbers, less than a row.
template <typename T>
HWY_INLINE void add_rest(const T* from, std::size_t count, std::uint64_t l, Signs& signs, const Bins& bins,
                         double* HWY_RESTRICT sums) {
  T padded[kRow] = {};
  std::copy_n(from, count, padded);
  HWY_ALIGN float row[kRow];
  Squares squares;
  sign_row(padded, signs, squares, row);
  bins.add(row, count, l);
  squares.add_to(sums);
}

template <typename T>
double sweep(std::span<const T> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  const Bins bins{z.data(), z.size(), key};
  HWY_ALIGN double sums[kFourLanes] = {};
  for (std::size_t begin = 0; begin < x.size(); begin += kSketchChunk) {
    const T* const from = x.data() + begin;
    const std::size_t size = std::min(kSketchChunk, x.size() - begin), whole = size / kRow * kRow;
    const std::size_t ahead = begin + kSketchChunk + kAhead <= x.size() ? kAhead : 0;
    const std::uint64_t l = std::uint64_t{first_chunk} * kSketchChunk + begin;
    Signs signs(static_cast<std::uint32_t>(l / kSketchChunk), key);
    for (std::size_t k = 0; k < whole; k += kRunRows * kRow)
      add_run(from + k, std::min(kRunRows, (whole - k) / kRow), l + k, ahead, signs, bins, sums);
    if (whole < size) add_rest(from + whole, size - whole, l + whole, signs, bins, sums);
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
}  // namespace flockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flockstep::kernels {

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

SketchKey sketch_key(std::uint64_t seed, std::uint32_t step) {
  base::Random random(seed, base::Purpose::sketch, 0, step);
  return {random.bits(), random.bits()};
}

double sketch(std::span<const float> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  check_bins(z);
  return taken_again_if_lost(x, HWY_DYNAMIC_DISPATCH(sketch_float)(x, key, first_chunk, z));
}
double sketch(std::span<const BFloat16> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  check_bins(z);
  return taken_again_if_lost(x, HWY_DYNAMIC_DISPATCH(sketch_bfloat16)(x, key, first_chunk, z));
}

}  // namespace flockstep::kernels
#endif
