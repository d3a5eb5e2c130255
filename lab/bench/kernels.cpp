#include "bench/kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/memory.h"
#include "flockstep/error.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/read_sweep.h"
#include "kernels/cpu/reference.h"

namespace flockstep::bench {
namespace {

constexpr std::size_t kSketchBins = 1024;

// The block, as an all-to-all leaves it: one row after the other, in memory of the library's own.
struct Block {
  Block(std::size_t workers, std::size_t floats_per_row)
      : n(floats_per_row), numbers(memory.allocate<float>(workers * floats_per_row, "benchmark")) {
    // A repeated pattern: drawing every number would take longer than the benchmark. Its length is odd, so rows differ.
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<float> pattern(65'521);
    for (float& number : pattern) number = normal(generator);
    for (std::size_t k = 0; k < numbers.size(); ++k) numbers.span()[k] = pattern[k % pattern.size()];
    for (std::size_t i = 0; i < workers; ++i) rows.push_back(numbers.data() + i * n);
  }

  std::size_t n;
  base::Memory memory;
  base::Buffer<float> numbers;
  std::vector<const float*> rows;
};

// `scale` is the largest magnitude the sums could have without cancellation.
void require_close(const char* kernel, std::span<const double> got, std::span<const double> expected, double scale) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - expected[i]) <= 1e-6 * scale) continue;
    throw Error(ErrorCode::mismatch, fmt::format("The kernel {} on {} gave {} where its reference gives {}: its timing "
                                                 "would mean nothing. This is a bug, please report it.",
                                                 kernel, kernels::cpu::simd_target(), got[i], expected[i]));
  }
}

void check_kernels(const Block& block, std::span<const float> coefficients) {
  const std::size_t workers = block.rows.size();
  const std::size_t n = std::min<std::size_t>(block.n, 10'007);
  const std::span<const float* const> rows = block.rows;

  std::vector<double> K(kernels::cpu::packed_size(workers)), expected_K(K.size());
  kernels::cpu::gram(rows, n, K);
  kernels::cpu::reference::gram(rows, n, std::span<double>(expected_K));
  double largest = 0;
  for (std::size_t i = 0; i < workers; ++i) largest = std::max(largest, expected_K[kernels::cpu::packed_index(i, i)]);
  require_close("gram", K, expected_K, largest);

  std::vector<double> d(workers), q(workers), expected_d(workers), expected_q(workers);
  kernels::cpu::row_statistics(rows, n, d, q);
  kernels::cpu::reference::row_statistics(rows, n, std::span<double>(expected_d), std::span<double>(expected_q));
  require_close("row_statistics", d, expected_d, largest * static_cast<double>(workers));
  require_close("row_statistics", q, expected_q, largest);

  std::vector<float> out(n);
  std::vector<double> expected_out(n);
  kernels::cpu::weighted_sum(rows, coefficients, out);
  const std::vector<double> doubles(coefficients.begin(), coefficients.end());
  kernels::cpu::reference::weighted_sum(rows, std::span<const double>(doubles), std::span<double>(expected_out));
  double sum_of_magnitudes = 0;
  for (const float c : coefficients) sum_of_magnitudes += std::abs(static_cast<double>(c));
  require_close("weighted_sum", std::vector<double>(out.begin(), out.end()), expected_out, 4 * sum_of_magnitudes);

  std::vector<float> z(kSketchBins), expected_z(kSketchBins);
  const kernels::SketchKey key = kernels::sketch_key(1, 1);
  const std::vector<double> square{kernels::cpu::sketch(std::span(rows[0], n), key, 1, z)};
  const std::vector<double> expected_square{kernels::cpu::reference::sketch(std::span(rows[0], n), key, 1, expected_z)};
  require_close("sketch", square, expected_square, largest);
  require_close("sketch", std::vector<double>(z.begin(), z.end()),
                std::vector<double>(expected_z.begin(), expected_z.end()), 0);
}

KernelFigure figure(const std::string& name, const Timings& timings, double bytes) {
  const Spread seconds = timings.seconds(name);
  return {.name = name,
          .seconds = seconds,
          .gigabytes_per_second = bytes / seconds.median / 1e9,
          .over_read = timings.ratio(name, "read"),
          .over_tuned_read = timings.ratio(name, "tuned_read")};
}

}  // namespace

std::optional<TargetResult> KernelBench::k1() const {
  double bar = 0;
  switch (workers) {
    case 8: bar = 1.1; break;
    case 16: bar = 1.5; break;
    case 32: bar = 2.5; break;
    default: return std::nullopt;
  }
  return TargetResult{.id = "K1",
                      .measure = fmt::format("Gram sweep / read sweep, P = {}, n = {}", workers, floats_per_row),
                      .figure = gram.over_read.median,
                      .bar = bar,
                      .at_most = true,
                      .spread = gram.over_read};
}

TargetResult KernelBench::a9() const {
  return at_most("A9",
                 fmt::format("sketch kernel / read sweep, one thread, m = {}, n = {}", kSketchBins, floats_per_row),
                 sketch.over_read, 1.2);
}

KernelBench run_kernel_bench(const KernelBenchOptions& options) {
  if (options.workers == 0) throw Error(ErrorCode::bad_input, "The kernel benchmark needs at least one worker.");
  if (options.harness.rounds == 0) throw Error(ErrorCode::bad_input, "The kernel benchmark needs at least one round.");
  const std::size_t n = options.bytes / sizeof(float) / options.workers;
  if (n == 0) throw Error(ErrorCode::bad_input, "The kernel benchmark needs at least one float per worker.");

  const Block block(options.workers, n);
  const std::vector<float> coefficients(options.workers, 1.0f / static_cast<float>(options.workers));
  check_kernels(block, coefficients);

  const std::span<const float* const> rows = block.rows;
  std::vector<double> K(kernels::cpu::packed_size(options.workers)), d(options.workers), q(options.workers);
  std::vector<float> out(n);
  base::Memory memory;
  base::Buffer<float> z = memory.allocate<float>(kSketchBins, "sketch");
  const kernels::SketchKey key = kernels::sketch_key(1, 1);
  const auto sketch_rows = [&] {
    for (const float* row : rows) {
      std::ranges::fill(z.span(), 0.0f);
      q[0] = kernels::cpu::sketch(std::span(row, n), key, 0, z.span());
    }
  };
  volatile float total = 0;  // keeps the reading alive
  const std::vector<Contender> contenders = {
      {"read", [&] { total = kernels::cpu::read_sweep(rows, n); }},
      {"gram", [&] { kernels::cpu::gram(rows, n, K); }},
      {"tuned_read", [&] { total = kernels::cpu::tuned_read_sweep(rows, n); }},
      {"row_statistics", [&] { kernels::cpu::row_statistics(rows, n, d, q); }},
      {"weighted_sum", [&] { kernels::cpu::weighted_sum(rows, coefficients, out); }},
      {"sketch", sketch_rows},
  };
  const Timings timings = run_interleaved(contenders, options.harness);
  const auto bytes = static_cast<double>(options.workers * n * sizeof(float));
  return {.simd_target = std::string(kernels::cpu::simd_target()),
          .workers = options.workers,
          .floats_per_row = n,
          .read = figure("read", timings, bytes),
          .tuned_read = figure("tuned_read", timings, bytes),
          .gram = figure("gram", timings, bytes),
          .row_statistics = figure("row_statistics", timings, bytes),
          .weighted_sum = figure("weighted_sum", timings, bytes),
          .sketch = figure("sketch", timings, bytes)};
}

}  // namespace flockstep::bench
