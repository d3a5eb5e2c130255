// The sweeps of a queue: how each is cut into blocks, and where its partial sums lie.
#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/cuda/queue.h"

namespace flockstep::kernels::cuda {
namespace {

bool is_aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}
int quads_are_aligned(const void* pointer, Number type) { return is_aligned(pointer, 4 * size_of(type)) ? 1 : 0; }

template <typename Arguments>
void set_rows(Arguments& arguments, const Rows& rows) {
  arguments.count = static_cast<int>(rows.at.size());
  for (std::size_t i = 0; i < rows.at.size(); ++i) arguments.rows[i] = rows.at[i];
}
int rows_are_aligned(const Rows& rows) {
  for (const void* row : rows.at)
    if (!is_aligned(row, 16)) return 0;
  return 1;
}
void check_count(const Rows& rows, int most) {
  base::check(!rows.at.empty() && rows.at.size() <= static_cast<std::size_t>(most),
              "at least one row, and no more than the kernels take");
}

SpanArguments span_of(Numbers x) {
  SpanArguments a{};
  a.x = x.data;
  a.size = x.size;
  a.x_type = type_of(x.type);
  a.x_aligned = quads_are_aligned(x.data, x.type);
  return a;
}
SpanArguments spans_of(ConstNumbers x, ConstNumbers y) {
  base::check(x.size == y.size, "spans of equal size");
  // Which of the two is written is the kernel's business.
  SpanArguments a = span_of({const_cast<void*>(x.data), x.size, x.type});
  a.y = const_cast<void*>(y.data);
  a.y_type = type_of(y.type);
  a.y_aligned = quads_are_aligned(y.data, y.type);
  return a;
}

}  // namespace

// ---- rows ----
Size StreamQueue::sweep_products(const Rows& rows, double*& partials) {
  const int count = static_cast<int>(rows.at.size());
  GramArguments a{};
  set_rows(a, rows);
  for (int i = count; i < kMostGramRows; ++i) a.rows[i] = rows.at[0];
  a.size = rows.size;
  a.aligned = rows_are_aligned(rows);
  const bool direct = count <= kMostDirectRows;
  const Cut cut =
      direct ? cut_of(rows.size, kDirectColumns, kMostDirectBlocks) : cut_of(rows.size, kTileColumns, kMostTileBlocks);
  a.chains = cut.chains;
  partials = a.partials = reinterpret_cast<double*>(scratch(place_of(count, 0) * cut.blocks * sizeof(double)));
  if (direct) {
    launch(fmt::format("gram_{}_{}", direct_slots(count), name_of(rows.type)),
           {.x = cut.blocks, .threads = kDirectThreads}, a);
  } else {
    const TilePlan plan = tile_plan(count);
    launch(fmt::format("tiles_{}", name_of(rows.type)),
           {.x = cut.blocks * plan.parts, .threads = plan.warps * 32, .shared_bytes = plan.shared_bytes}, a);
  }
  return cut.blocks;
}

void StreamQueue::add_gram(const Rows& rows, double* K) {
  check_count(rows, kMostGramRows);
  if (rows.size == 0) return;
  GramEndArguments a{};
  double* partials = nullptr;
  a.blocks = sweep_products(rows, partials);
  set_rows(a, rows);
  a.partials = partials;
  a.size = rows.size;
  a.type = type_of(rows.type);
  a.K = K;
  launch("end_gram", {.x = static_cast<Size>(place_of(a.count, 0)), .threads = kEndThreads}, a);
}

void StreamQueue::add_row_statistics(const Rows& rows, double* d, double* q) {
  check_count(rows, kMostRows);
  if (rows.size == 0) return;
  if (rows.at.size() > kMostDirectRows) return sweep_statistics(rows, d, q);
  GramEndArguments a{};
  double* partials = nullptr;
  a.blocks = sweep_products(rows, partials);
  set_rows(a, rows);
  a.partials = partials;
  a.size = rows.size;
  a.type = type_of(rows.type);
  a.d = d;
  a.q = q;
  launch("end_direct_statistics", {.x = static_cast<Size>(a.count), .threads = kEndThreads}, a);
}

void StreamQueue::sweep_statistics(const Rows& rows, double* d, double* q) {
  StatisticsArguments a{};
  set_rows(a, rows);
  const Cut cut = cut_of(rows.size, kStatisticsColumns, kMostStatisticsBlocks);
  const std::size_t partials_bytes = 2 * rows.at.size() * cut.blocks * sizeof(double);
  std::byte* const memory = scratch(partials_bytes + sizeof(Word));
  a.size = rows.size;
  a.chains = cut.chains;
  a.partials = reinterpret_cast<double*>(memory);
  a.lost = reinterpret_cast<Word*>(memory + partials_bytes);
  StatisticsEndArguments end{};
  end.partials = a.partials;
  end.size = a.size;
  end.blocks = cut.blocks;
  end.d = d;
  end.q = q;
  end.lost = a.lost;
  end.count = a.count;
  {
    const Current current(module_.context());
    require(driver().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(a.lost), 0, sizeof(Word), stream_), "clear memory");
  }
  const Grid sweep{.x = cut.blocks, .threads = kStatisticsThreads};
  const Grid each_row{.x = static_cast<Size>(a.count), .threads = kStatisticsThreads};
  launch(fmt::format("statistics_{}", name_of(rows.type)), sweep, a);
  launch("judge_statistics", each_row, end);
  launch(fmt::format("wide_statistics_{}", name_of(rows.type)), sweep, a);  // ends at once where nothing was lost
  launch("end_statistics", each_row, end);
}

void StreamQueue::weighted_sum(const Rows& rows, const double* coefficients, Numbers out) {
  check_count(rows, kMostRows);
  base::check(rows.size == out.size, "a place for every sum");
  if (rows.size == 0) return;
  SumArguments a{};
  set_rows(a, rows);
  a.coefficients = coefficients;
  a.out = out.data;
  a.size = rows.size;
  a.aligned = rows_are_aligned(rows);
  a.out_aligned = quads_are_aligned(out.data, out.type);
  a.out_type = type_of(out.type);
  const Cut cut = cut_of(rows.size, kSumThreads * (16 / size_of(rows.type)), kMostSumBlocks);
  a.chains = cut.chains;
  launch(fmt::format("sum_{}", name_of(rows.type)), {.x = cut.blocks, .threads = kSumThreads}, a);
}

// ---- spans ----
void StreamQueue::over_span(const std::string& kernel, const SpanArguments& arguments) {
  if (arguments.size == 0) return;
  launch(kernel, {.x = ceil_of(arguments.size, kSpanColumns), .threads = kSpanThreads}, arguments);
}

void StreamQueue::fill(Numbers x, float value) {
  SpanArguments a = span_of(x);
  a.value = value;
  over_span("fill", a);
}
void StreamQueue::convert(ConstNumbers from, Numbers to) {
  if (from.type != to.type) return over_span("convert", spans_of(from, to));
  base::check(from.size == to.size, "spans of equal size");
  copy(to.data, from.data, from.bytes());
}
void StreamQueue::scale(Numbers x, const double* factor) {
  SpanArguments a = span_of(x);
  a.factor = factor;
  over_span("scale", a);
}
void StreamQueue::axpy(float factor, std::span<const float> x, std::span<float> y) {
  SpanArguments a = spans_of(x, Numbers(y));
  a.value = factor;
  over_span("axpy", a);
}
void StreamQueue::find_non_finite(ConstNumbers x, std::uint32_t* found) {
  SpanArguments a = spans_of(x, x);
  a.found = found;
  over_span("find_non_finite", a);
}
void StreamQueue::divide(std::span<float> x, float divisor) {
  SpanArguments a = span_of(x);
  a.value = divisor;
  over_span("divide", a);
}
void StreamQueue::join(std::span<float> model, std::span<const float> mean, int members) {
  SpanArguments a = spans_of(Numbers(model), mean);
  a.value = static_cast<float>(members + 1);
  over_span("join", a);
}
void StreamQueue::join_and_swap(std::span<float> model, std::span<float> mean, int members) {
  SpanArguments a = spans_of(Numbers(model), Numbers(mean));
  a.value = static_cast<float>(members + 1);
  over_span("join_and_swap", a);
}
void StreamQueue::move_to(std::span<float> x, std::span<float> y) {
  over_span("move_to", spans_of(Numbers(x), Numbers(y)));
}

// ---- squares and sketches ----
StreamQueue::Measured StreamQueue::measure(ConstNumbers x, SketchKey key, std::uint32_t first_chunk,
                                           std::size_t length) {
  if (length == 0) {
    SquareArguments a{};
    const Size blocks = std::min(ceil_of(x.size, Size{kSpanThreads} * 4 * 4), kMostSquareBlocks);
    a.x = x.data;
    a.size = x.size;
    a.type = type_of(x.type);
    a.aligned = quads_are_aligned(x.data, x.type);
    a.partials = reinterpret_cast<double*>(scratch(blocks * sizeof(double)));
    if (blocks > 0) launch("sum_squares", {.x = blocks, .threads = kSpanThreads}, a);
    return {.sketches = nullptr, .squares = a.partials, .programs = 0, .square_count = blocks, .width = 0};
  }
  base::check(std::has_single_bit(length), "as many bins as a power of two");
  const SketchPlan plan = sketch_plan(x.size, first_chunk, length);
  SketchArguments a{};
  a.x = x.data;
  a.size = x.size;
  a.before = plan.before;
  a.blocks = plan.blocks;
  a.length = length;
  a.chunk = plan.chunk;
  a.block = plan.block;
  a.k0 = key.k0;
  a.k1 = key.k1;
  const Size square_count = plan.programs * plan.tiles;
  const std::size_t squares_bytes = square_count * sizeof(double);
  std::byte* const memory = scratch(squares_bytes + plan.programs * plan.width * sizeof(float));
  a.squares = reinterpret_cast<double*>(memory);
  a.sketches = reinterpret_cast<float*>(memory + squares_bytes);
  if (plan.programs > 0)
    launch(fmt::format("sketch_{}", name_of(x.type)), {.x = plan.programs, .y = plan.tiles, .threads = kSketchThreads},
           a);
  return {.sketches = a.sketches,
          .squares = a.squares,
          .programs = plan.programs,
          .square_count = square_count,
          .width = plan.width};
}

void StreamQueue::add_square(ConstNumbers x, double* square) {
  if (x.size == 0) return;
  const Measured measured = measure(x, {}, 0, 0);
  SquareEndArguments end{};
  end.partials = measured.squares;
  end.blocks = measured.square_count;
  end.square = square;
  launch("end_square", {.threads = kSpanThreads}, end);
}

void StreamQueue::add_sketch(ConstNumbers x, SketchKey key, std::uint32_t first_chunk, std::span<float> z,
                             double* square) {
  base::check(std::has_single_bit(z.size()), "as many bins as a power of two");
  if (x.size == 0) return;
  const Measured measured = measure(x, key, first_chunk, z.size());
  SketchEndArguments end{};
  end.sketches = measured.sketches;
  end.squares = measured.squares;
  end.partial_count = measured.programs * (measured.width / z.size());
  end.square_count = measured.square_count;
  end.length = z.size();
  end.z = z.data();
  end.square = square;
  launch("end_sketch", {.x = z.size() / bins_of(z.size()), .threads = kSketchThreads}, end);
}

}  // namespace flockstep::kernels::cuda
