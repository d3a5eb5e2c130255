// Google Benchmark over every kernel, by where the data lies: in the first, second or third level of cache, or in
// memory.
//
//   kernels_benchmark --benchmark_filter=gram
//
// For looking at one kernel while changing it. The ratios that targets K1 and A9 ask for come from kernels.h.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/read_sweep.h"

namespace flockstep::bench {
namespace {

using kernels::BFloat16;

// Bytes that lie in the first, second and third level of cache, and in memory, on the processors of these years.
const std::vector<std::int64_t> kSizes = {16 << 10, 256 << 10, 8 << 20, 128 << 20};

template <typename T>
T number(std::size_t k);
template <>
float number<float>(std::size_t k) {
  return static_cast<float>(k % 251) / 251.0f - 0.5f;
}
template <>
BFloat16 number<BFloat16>(std::size_t k) {
  return kernels::to_bfloat16(number<float>(k));
}

template <typename T>
struct Rows {
  Rows(std::size_t workers, std::size_t bytes) : n(bytes / sizeof(T) / workers), numbers(workers * n) {
    for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = number<T>(k);
    for (std::size_t i = 0; i < workers; ++i) pointers.push_back(numbers.data() + i * n);
  }
  std::span<const T> all() const { return numbers; }

  std::size_t n;
  std::vector<T> numbers;
  std::vector<const T*> pointers;
};

// Arguments of the benchmarks over rows: bytes in all, and P.
template <typename T>
Rows<T> rows_of(const benchmark::State& state) {
  return Rows<T>(static_cast<std::size_t>(state.range(1)), static_cast<std::size_t>(state.range(0)));
}

void count_bytes(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * state.range(0)); }

template <typename T>
void gram(benchmark::State& state) {
  const auto rows = rows_of<T>(state);
  std::vector<double> K(kernels::cpu::packed_size(rows.pointers.size()));
  for (auto _ : state) {
    kernels::cpu::gram(rows.pointers, rows.n, K);
    benchmark::DoNotOptimize(K.data());
  }
  count_bytes(state);
}

template <typename T>
void row_statistics(benchmark::State& state) {
  const auto rows = rows_of<T>(state);
  std::vector<double> d(rows.pointers.size()), q(rows.pointers.size());
  for (auto _ : state) {
    kernels::cpu::row_statistics(rows.pointers, rows.n, d, q);
    benchmark::DoNotOptimize(d.data());
  }
  count_bytes(state);
}

template <typename T>
void weighted_sum(benchmark::State& state) {
  const auto rows = rows_of<T>(state);
  const std::vector<double> coefficients(rows.pointers.size(), 0.5);
  std::vector<float> out(rows.n);
  for (auto _ : state) {
    kernels::cpu::weighted_sum(rows.pointers, coefficients, out);
    benchmark::DoNotOptimize(out.data());
  }
  count_bytes(state);
}

void read_sweep(benchmark::State& state) {
  const auto rows = rows_of<float>(state);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::cpu::read_sweep(rows.pointers, rows.n));
  count_bytes(state);
}

void tuned_read_sweep(benchmark::State& state) {
  const auto rows = rows_of<float>(state);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::cpu::tuned_read_sweep(rows.pointers, rows.n));
  count_bytes(state);
}

void axpy(benchmark::State& state) {
  const Rows<float> rows(1, static_cast<std::size_t>(state.range(0)));
  std::vector<float> y(rows.n);
  for (auto _ : state) {
    kernels::cpu::axpy(0.5f, rows.all(), y);
    benchmark::DoNotOptimize(y.data());
  }
  count_bytes(state);
}

void dot(benchmark::State& state) {
  const Rows<float> rows(1, static_cast<std::size_t>(state.range(0)));
  const auto x = rows.all().first(rows.n / 2), y = rows.all().subspan(rows.n / 2, rows.n / 2);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::cpu::dot(x, y));
  count_bytes(state);
}

template <typename T>
void has_non_finite(benchmark::State& state) {
  const Rows<T> rows(1, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(kernels::cpu::has_non_finite(rows.all()));
  count_bytes(state);
}

// Arguments: bytes, and bins.
template <typename T>
void sketch(benchmark::State& state) {
  const Rows<T> rows(1, static_cast<std::size_t>(state.range(0)));
  std::vector<float> z(static_cast<std::size_t>(state.range(1)));
  const kernels::SketchKey key = kernels::sketch_key(1, 1);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::cpu::sketch(rows.all(), key, 0, z));
  count_bytes(state);
}

void over_rows(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({kSizes, {4, 8, 16, 32}})->ArgNames({"bytes", "P"});
}
void over_sizes(benchmark::internal::Benchmark* benchmark) { benchmark->ArgsProduct({kSizes})->ArgNames({"bytes"}); }
void over_bins(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({kSizes, {32, 128, 1024, 16384}})->ArgNames({"bytes", "bins"});
}

BENCHMARK(read_sweep)->Apply(over_rows);
BENCHMARK(tuned_read_sweep)->Apply(over_rows);
BENCHMARK(gram<float>)->Apply(over_rows);
BENCHMARK(gram<BFloat16>)->Apply(over_rows);
BENCHMARK(row_statistics<float>)->Apply(over_rows);
BENCHMARK(row_statistics<BFloat16>)->Apply(over_rows);
BENCHMARK(weighted_sum<float>)->Apply(over_rows);
BENCHMARK(weighted_sum<BFloat16>)->Apply(over_rows);
BENCHMARK(sketch<float>)->Apply(over_bins);
BENCHMARK(sketch<BFloat16>)->Apply(over_bins);
BENCHMARK(axpy)->Apply(over_sizes);
BENCHMARK(dot)->Apply(over_sizes);
BENCHMARK(has_non_finite<float>)->Apply(over_sizes);
BENCHMARK(has_non_finite<BFloat16>)->Apply(over_sizes);

}  // namespace
}  // namespace flockstep::bench

int main(int count, char** arguments) {
  benchmark::AddCustomContext("simd_target", std::string(flockstep::kernels::cpu::simd_target()));
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
