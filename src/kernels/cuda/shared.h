// What the host and the kernels both have to know: arguments, sizes, and how work is cut up. NVRTC compiles this text
// as well, and brings no headers: so nothing is included here.
//
// Every cut is a function of sizes alone, never of the GPU: the sums of a sweep are added in the same order everywhere.
#pragma once

namespace flockstep::kernels::cuda {

using Size = unsigned long long;
using Word = unsigned int;

// As kernels::Number.
enum Type { kFloat32, kBFloat16, kFloat16 };

constexpr Size ceil_of(Size number, Size divisor) { return (number + divisor - 1) / divisor; }

// ---- rows ----
constexpr int kMostRows = 448;  // whose addresses fit a kernel's 4 KB of arguments
constexpr int kMostGramRows = 64;
constexpr int kMostDirectRows = 16;  // whose products one thread keeps in registers
constexpr int kChain = 64;           // products that are added in float

// Place (i, j) of a triangle, i >= j, as math/packed.h has it; and back.
constexpr int place_of(int i, int j) { return i * (i + 1) / 2 + j; }
constexpr int row_of(int place) {
  int i = 0;
  while (place_of(i + 1, 0) <= place) ++i;
  return i;
}
constexpr int column_of(int place) { return place - place_of(row_of(place), 0); }

// The direct sweep: a thread takes kChain columns of all rows, a block so many of those chains.
constexpr int kDirectThreads = 128;
constexpr Size kDirectColumns = Size{kDirectThreads} * kChain;  // of a block, in one chain
constexpr Size kMostDirectBlocks = 4096;

// How many rows the kernel has that takes `rows` of them.
constexpr int direct_slots(int rows) { return rows <= 2 ? 2 : rows <= 4 ? 4 : rows <= 8 ? 8 : 16; }

// The tiled sweep: rows in groups of eight, a warp for each pair of groups, and all columns of a block for each warp.
constexpr int kGroup = 8;
constexpr int kPieceBytes = 16;
constexpr int kRowBytes = 32 * kPieceBytes;       // of a row in a stage of shared memory
constexpr int kLaneColumns = 4;                   // that a lane multiplies at once
constexpr Size kTileColumns = Size{32} * kChain;  // of a block, in one chain
constexpr Size kMostTileBlocks = 512;
constexpr int kMostTileWarps = 15;

struct TilePlan {
  int groups, pairs, parts, warps, stages;  // pairs are cut into parts, which are blocks of their own
  int shared_bytes;
};
constexpr TilePlan tile_plan(int rows) {
  TilePlan plan{};
  plan.groups = (rows + kGroup - 1) / kGroup;
  plan.pairs = place_of(plan.groups, 0);
  plan.parts = (plan.pairs + kMostTileWarps - 1) / kMostTileWarps;
  plan.warps = (plan.pairs + plan.parts - 1) / plan.parts;
  plan.stages = plan.groups <= 4 ? 6 : 3;
  plan.shared_bytes = plan.stages * plan.groups * kGroup * kRowBytes;
  return plan;
}

// How many chains a block takes one after the other, and how many blocks that makes.
struct Cut {
  Size chains, blocks;
};
constexpr Cut cut_of(Size size, Size columns, Size most_blocks) {
  const Size chains = ceil_of(size, columns * most_blocks);
  return {chains, chains == 0 ? 0 : ceil_of(size, columns * chains)};
}

struct GramArguments {
  const void* rows[kMostGramRows];  // beyond the last one: the first once more
  Size size, chains;
  double* partials;  // [entries][blocks]
  int count;
  int aligned;  // whether every row begins on 16 bytes
};

constexpr int kEndThreads = 512;
struct GramEndArguments {
  const void* rows[kMostGramRows];
  Size size, blocks;
  const double* partials;
  double *K, *d, *q;  // K, or d and q
  int count;
  Type type;
};

// ---- row statistics beyond the direct sweep ----
constexpr int kStatisticsThreads = 256;
constexpr int kStatisticsRows = 16;  // that a warp takes at once
constexpr Size kStatisticsColumns = kStatisticsThreads;
constexpr Size kMostStatisticsBlocks = 1024;

struct StatisticsArguments {
  const void* rows[kMostRows];
  Size size, chains;
  double* partials;  // [2 count][blocks]: d, then q
  Word* lost;        // whether the sums in float cannot be trusted
  int count;
};

struct StatisticsEndArguments {
  const double* partials;
  Size size, blocks;
  double *d, *q;
  Word* lost;
  int count;
};

// ---- weighted sum ----
constexpr int kSumThreads = 256;
constexpr Size kMostSumBlocks = 4096;

struct SumArguments {
  const void* rows[kMostRows];
  const double* coefficients;
  void* out;
  Size size, chains;
  int count;
  int aligned, out_aligned;
  Type out_type;
};

// ---- one or two spans ----
constexpr int kSpanThreads = 256;
constexpr int kSpanQuads = 4;  // of four numbers, for each thread
constexpr Size kSpanColumns = Size{kSpanThreads} * kSpanQuads * 4;

struct SpanArguments {
  void *x, *y;
  Size size;
  Type x_type, y_type;
  int x_aligned, y_aligned;
  float value;
  const double* factor;
  Word* found;
};

constexpr Size kMostSquareBlocks = 512;
struct SquareArguments {
  const void* x;
  Size size;
  double* partials;
  Type type;
  int aligned;
};
struct SquareEndArguments {
  const double* partials;
  Size blocks;
  double* square;
};

// ---- sketch ----
constexpr int kSketchThreads = 256;
constexpr int kTile = 1024;  // bins of a block, and numbers that it takes at once
constexpr Size kMostSketchBlocks = 512;
constexpr int kSketchAhead = 4;  // tiles whose numbers a thread asks for at once

// Where a bucket lies among the blocks of `length` numbers, each of which has a rotation of its own.
struct SketchPlan {
  Size before;        // how far into its first block the bucket begins
  Size blocks;        // blocks of `length` that it touches
  Word chunk, block;  // numbers of the chunk and of the block that the first one begins with, modulo 2^32
  Size width;         // bins of a partial sketch: `length`, or several short ones side by side
  Size programs, tiles;
};
constexpr SketchPlan sketch_plan(Size size, Word first_chunk, Size length) {
  const Size begin = Size{first_chunk} * 1024;
  SketchPlan plan{};
  plan.before = begin % length;
  plan.blocks = ceil_of(plan.before + size, length);
  plan.chunk = static_cast<Word>((begin - plan.before) / 1024);
  plan.block = static_cast<Word>((begin - plan.before) / length);
  plan.width = length < kTile ? kTile : length;
  plan.tiles = plan.width / kTile;
  const Size groups = ceil_of(plan.blocks * length, plan.width);
  const Size most = kMostSketchBlocks / plan.tiles;
  plan.programs = groups < most ? groups : most == 0 ? 1 : most;
  return plan;
}

struct SketchArguments {
  const void* x;
  Size size, before, blocks, length;
  Word chunk, block, k0, k1;
  float* sketches;  // [programs][width]
  double* squares;  // [programs][tiles]
};

struct SketchEndArguments {
  const float* sketches;
  const double* squares;
  Size partial_count, square_count, length;
  float* z;
  double* square;
};
// How many bins a block adds up.
constexpr Size bins_of(Size length) { return length < 32 ? length : 32; }

// As sketch.h defines it.
constexpr Word mixed(Word n, Word a, Word b) {
  Word h = n * 0x9E3779B1u + a;
  h ^= h >> 16;
  h = h * 0x85EBCA6Bu + b;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}
// The sign of the number at `place`, counted from where `chunk` begins: the highest bit of what this returns.
constexpr Word sign_word(Size place, Word chunk, Word k0, Word k1) {
  return mixed((chunk + static_cast<Word>(place / 1024)) * 32 + static_cast<Word>(place % 32), k0, k1)
         << (place % 1024 / 32);
}
// Where, within its block, the number stands that falls into `bin`.
constexpr Size within(Size bin, Word block, Size length, Word k0, Word k1) {
  return (bin - mixed(block, k1, k0)) & (length - 1);
}

// ---- a bucket that is measured, sketched and scaled ----
struct ScaleArguments {
  void* x;
  Size size;
  Type type;
  int aligned;
  const float* sketches;
  const double* squares;
  Size partial_count, square_count, length;  // length 0: no sketch
  float* z;
  int begins;
  const double* factors;
  double coefficient, share;
  int place, limit, excludes;
  double* norms;
  int index;
};

}  // namespace flockstep::kernels::cuda
