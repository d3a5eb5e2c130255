// The Gram sweep: blocks of all rows that fit the first-level cache, tiles of 4 x 4 products in registers.
//
// A block is 32 vectors of each row. The tile on the diagonal is the first to touch its four rows: it reads them where
// they are and leaves them behind as floats, packed in the order in which the other tiles read them. So widening is
// paid once, and rows that lie a power of two apart do not fight for the same cache sets. Reading and multiplying would
// take turns; tiles therefore prefetch rows of a later block as they go.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gram.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd_inl.h"
#include "kernels/cpu/wide.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr std::size_t kTile = 4;                       // rows of a tile
constexpr std::size_t kTileSums = kTile * kFourLanes;  // doubles that a tile adds to
// Sixteen sums need more than the sixteen registers of the older targets: there a tile is made in two halves.
constexpr std::size_t kColumns = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON ? 4 : 2;

// What one tile prefetches: none, two or four rows from `begin` on, each as far as the tile advances.
template <typename T>
struct Ahead {
  const T* const* rows = nullptr;
  std::size_t begin = 0;
  std::size_t count = 0;

  HWY_INLINE void step(std::size_t k) const {
    if (count == 0 || k * kLanes * sizeof(T) % kCacheLine != 0) return;
    line(0, k);
    line(1, k);
    if (count == 2) return;
    line(2, k);
    line(3, k);
  }
  HWY_INLINE void line(std::size_t row, std::size_t k) const {
    prefetch(reinterpret_cast<const char*>(rows[row] + begin + k * kLanes));
  }
};

// Hands out the rows of a later block to the tiles of this one, until all are given (but for an odd last one).
template <typename T>
class Prefetches {
 public:
  Prefetches(std::span<const T* const> rows, std::size_t begin) : rows_(rows), begin_(begin) {}

  HWY_INLINE Ahead<T> take(std::size_t count) {
    count = std::min(count, rows_.size() / 2 * 2);
    if (count == 0) return {};
    const Ahead<T> ahead{.rows = rows_.data(), .begin = begin_, .count = count};
    rows_ = rows_.subspan(count);
    return ahead;
  }

 private:
  std::span<const T* const> rows_;
  std::size_t begin_;
};

// How a sweep over so many tiles along the diagonal goes. The aim is that requests to memory never pause while products
// are made; measured on Zen 4 and on a Xeon of 2023, as no theory of ours predicts it.
struct Plan {
  std::size_t block;     // numbers of each row in a block
  std::size_t diagonal;  // how many rows a tile on the diagonal prefetches,
  std::size_t other;     // and any other tile,
  std::size_t ahead;     // from how many numbers further on
};
constexpr Plan plan(std::size_t tiles) {
  constexpr std::size_t kRun = kChain * kLanes;
  if (tiles == 1) return {2 * kRun, 4, 0, 4 * kRun};
  if (tiles == 2) return {2 * kRun, 2, 4, 2 * kRun};
  if (tiles <= 4) return {kRun, 0, 4, kRun};
  return {2 * kRun, 0, 2, 4 * kRun};
}

// The sums of a tile of `Rows` x 4 products.
template <std::size_t Rows>
struct Tile {
  FloatVector sums[Rows][4];

  HWY_INLINE Tile() {
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = hn::Zero(Floats());
  }
  HWY_INLINE void add_to(double* HWY_RESTRICT doubles) const {
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r)
      add_to_four(sums[r][0], sums[r][1], sums[r][2], sums[r][3], doubles + r * kFourLanes);
  }
};

// The lower triangle of a diagonal tile, one vector of each of its rows.
template <std::size_t Rows>
HWY_INLINE void multiply_triangle(const FloatVector (&row)[Rows], Tile<Rows>& tile) {
#pragma GCC unroll 4
  for (std::size_t c = 0; c < Rows; ++c) {
#pragma GCC unroll 4
    for (std::size_t r = c; r < Rows; ++r) tile.sums[r][c] = hn::MulAdd(row[r], row[c], tile.sums[r][c]);
  }
}

// Where tiles off the diagonal find the rows that the tile on it has read: packed, or where they have been all along.
template <std::size_t Rows>
struct PackedRows {
  const float* HWY_RESTRICT from;

  HWY_INLINE FloatVector vector(std::size_t k, std::size_t r) const {
    return hn::Load(Floats(), from + (k * Rows + r) * kLanes);
  }
};
template <std::size_t Rows>
struct DirectRows {
  const float* from[Rows];

  HWY_INLINE DirectRows(const float* const* rows, std::size_t begin) {
    for (std::size_t r = 0; r < Rows; ++r) from[r] = rows[r] + begin;
  }
  HWY_INLINE FloatVector vector(std::size_t k, std::size_t r) const {
    return hn::LoadU(Floats(), from[r] + k * kLanes);
  }
};

// `n` numbers from `begin` on of `Rows` rows: their products with each other, and themselves into `packed` if asked to.
template <std::size_t Rows, bool Pack, typename T>
HWY_NOINLINE void diagonal_tile(const T* const* rows, std::size_t begin, std::size_t n, float* HWY_RESTRICT packed,
                                double* HWY_RESTRICT sums, const Ahead<T> ahead) {
  const Floats d;
  const T* from[Rows];
  for (std::size_t r = 0; r < Rows; ++r) from[r] = rows[r] + begin;
  const std::size_t whole = n / kLanes;
  FloatVector row[Rows];
  for (std::size_t k = 0; k < whole;) {
    Tile<Rows> tile;
    for (const std::size_t end = std::min(whole, k + kChain); k < end; ++k) {
      ahead.step(k);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) {
        row[r] = in_register(load(d, from[r] + k * kLanes));
        if constexpr (Pack) hn::Store(row[r], d, packed + (k * Rows + r) * kLanes);
      }
      multiply_triangle(row, tile);
    }
    tile.add_to(sums);
  }
  if (const std::size_t rest = n % kLanes; rest != 0) {
    Tile<Rows> tile;
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      row[r] = load_partial(d, from[r] + whole * kLanes, rest);
      if constexpr (Pack) hn::Store(row[r], d, packed + (whole * Rows + r) * kLanes);
    }
    multiply_triangle(row, tile);
    tile.add_to(sums);
  }
}

// The products of `Rows` rows with kColumns rows of an earlier tile, over the vectors from `begin` to `end`.
template <std::size_t Rows, class Lower, class Upper, typename T>
HWY_INLINE void multiply_columns(const Lower& lower, const Upper& upper, std::size_t first_column, std::size_t begin,
                                 std::size_t end, FloatVector (&sums)[Rows][kColumns], const Ahead<T>& ahead) {
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (std::size_t c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(Floats());
  }
  for (std::size_t k = begin; k < end; ++k) {
    ahead.step(k);
    FloatVector row[Rows];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) row[r] = in_register(lower.vector(k, r));
#pragma GCC unroll 4
    for (std::size_t c = 0; c < kColumns; ++c) {
      const FloatVector column = in_register(upper.vector(k, first_column + c));
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) sums[r][c] = hn::MulAdd(row[r], column, sums[r][c]);
    }
  }
}

// The products of `Rows` rows with the four rows of an earlier tile, over `vectors` vectors.
template <std::size_t Rows, class Lower, class Upper, typename T>
HWY_NOINLINE void other_tile(const Lower lower, const Upper upper, std::size_t vectors, double* HWY_RESTRICT sums,
                             const Ahead<T> ahead) {
  for (std::size_t begin = 0; begin < vectors; begin += kChain) {
    const std::size_t end = std::min(vectors, begin + kChain);
    FloatVector left[Rows][kColumns];
    multiply_columns(lower, upper, 0, begin, end, left, ahead);
    if constexpr (kColumns == 4) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r)
        add_to_four(left[r][0], left[r][1], left[r][2], left[r][3], sums + r * kFourLanes);
    } else {
      const FloatVector zero = hn::Zero(Floats());
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) add_to_four(left[r][0], left[r][1], zero, zero, sums + r * kFourLanes);
      FloatVector right[Rows][kColumns];
      multiply_columns(lower, upper, 2, begin, end, right, Ahead<T>{});
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) add_to_four(zero, zero, right[r][0], right[r][1], sums + r * kFourLanes);
    }
  }
}

template <typename T>
class Sweep {
 public:
  Sweep(std::span<const T* const> rows, std::size_t n)
      : rows_(rows),
        n_(n),
        tiles_((rows.size() + kTile - 1) / kTile),
        plan_(plan(tiles_)),
        packed_(hwy::AllocateAligned<float>(tiles_ * packed_tile())),
        sums_(hwy::AllocateAligned<double>(packed_size(tiles_) * kTileSums)) {
    std::fill_n(sums_.get(), packed_size(tiles_) * kTileSums, 0.0);
  }

  void run() {
    for (std::size_t begin = 0; begin < n_; begin += plan_.block) {
      const std::size_t later = begin + plan_.ahead;
      Prefetches<T> prefetches(later + plan_.block <= n_ ? rows_ : rows_.first(0), later);
      const std::size_t size = std::min(plan_.block, n_ - begin);
      for (std::size_t i = 0; i < tiles_; ++i) {
        switch (std::min(kTile, rows_.size() - i * kTile)) {
          case 1: row_of_tiles<1>(i, begin, size, prefetches); break;
          case 2: row_of_tiles<2>(i, begin, size, prefetches); break;
          case 3: row_of_tiles<3>(i, begin, size, prefetches); break;
          default: row_of_tiles<4>(i, begin, size, prefetches); break;
        }
      }
    }
  }

  double product(std::size_t i, std::size_t j) const {
    return one_of_four(sums(i / kTile, j / kTile) + i % kTile * kFourLanes, j % kTile);
  }

 private:
  // The part that one row of tiles has in a block: tile (i, i), then (i, 0) to (i, i - 1).
  template <std::size_t Rows>
  HWY_INLINE void row_of_tiles(std::size_t i, std::size_t begin, std::size_t n, Prefetches<T>& prefetches) {
    const T* const* const own = rows_.data() + i * kTile;
    // Up to eight rows of float fit the ways of the first-level cache wherever they are: packing gains nothing. One
    // tile has nothing to share. The end of the rows is packed in any case, which fills up its last vector with zeros.
    const bool whole = n == plan_.block;
    if constexpr (std::is_same_v<T, float>) {
      if (tiles_ <= 2 && whole) {
        diagonal_tile<Rows, false>(own, begin, n, nullptr, sums(i, i), prefetches.take(plan_.diagonal));
        if (i == 1)
          other_tile<Rows>(DirectRows<Rows>(own, begin), DirectRows<kTile>(rows_.data(), begin), n / kLanes, sums(1, 0),
                           prefetches.take(plan_.other));
        return;
      }
    }
    diagonal_tile<Rows, true>(own, begin, n, packed(i), sums(i, i), prefetches.take(plan_.diagonal));
    for (std::size_t j = 0; j < i; ++j) {
      other_tile<Rows>(PackedRows<Rows>{packed(i)}, PackedRows<kTile>{packed(j)}, (n + kLanes - 1) / kLanes, sums(i, j),
                       prefetches.take(plan_.other));
    }
  }

  std::size_t packed_tile() const { return kTile * plan_.block; }
  float* packed(std::size_t i) const { return packed_.get() + i * packed_tile(); }
  double* sums(std::size_t i, std::size_t j) const { return sums_.get() + packed_index(i, j) * kTileSums; }

  std::span<const T* const> rows_;
  std::size_t n_, tiles_;
  Plan plan_;
  hwy::AlignedFreeUniquePtr<float[]> packed_;
  hwy::AlignedFreeUniquePtr<double[]> sums_;
};

template <typename T>
void sweep(std::span<const T* const> rows, std::size_t n, std::span<double> K) {
  Sweep<T> sweep(rows, n);
  sweep.run();
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) K[packed_index(i, j)] = sweep.product(i, j);
}

void gram_float(std::span<const float* const> rows, std::size_t n, std::span<double> K) { sweep(rows, n, K); }
void gram_bfloat16(std::span<const BFloat16* const> rows, std::size_t n, std::span<double> K) { sweep(rows, n, K); }

}  // namespace HWY_NAMESPACE
}  // namespace flockstep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flockstep::kernels::cpu {

HWY_EXPORT(gram_float);
HWY_EXPORT(gram_bfloat16);

namespace {
void check_shape(std::size_t workers, std::size_t places) {
  base::check(workers > 0, "at least one row");
  base::check(places == packed_size(workers), "a place for every pair of rows");
}

// The squares tell of every product: |xy| <= (x^2 + y^2) / 2.
template <typename T>
void take_again_if_lost(std::span<const T* const> rows, std::size_t n, std::span<double> K) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (wide::is_lost(K[packed_index(i, i)], rows[i], n, rows.size())) return wide::gram(rows, n, K);
}
}  // namespace

void gram(std::span<const float* const> rows, std::size_t n, std::span<double> K) {
  check_shape(rows.size(), K.size());
  HWY_DYNAMIC_DISPATCH(gram_float)(rows, n, K);
  take_again_if_lost(rows, n, K);
}
void gram(std::span<const BFloat16* const> rows, std::size_t n, std::span<double> K) {
  check_shape(rows.size(), K.size());
  HWY_DYNAMIC_DISPATCH(gram_bfloat16)(rows, n, K);
  take_again_if_lost(rows, n, K);
}

}  // namespace flockstep::kernels::cpu
#endif
