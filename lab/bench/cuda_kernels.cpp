#include "bench/cuda_kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <thread>

#include "flockstep/error.h"
#include "kernels/cuda/device.h"
#include "kernels/queue.h"
#include "math/packed.h"

namespace flockstep::bench {
namespace {

using kernels::Number;
using kernels::Numbers;

constexpr std::size_t kSketchBins = 1024;
constexpr std::size_t kPattern = 65'521;  // odd, so that rows differ
constexpr std::size_t kChecked = 10'007;  // numbers of each row

void wait_for(kernels::Queue& queue) {
  for (const auto done = queue.mark(); !done();) std::this_thread::yield();
}

std::vector<float> pattern() {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(kPattern);
  for (float& number : numbers) number = normal(generator);
  return numbers;
}

// The rows, one after the other, and what the sweeps write.
struct DeviceBlock {
  DeviceBlock(kernels::Queue& queue, std::size_t workers, std::size_t floats_per_row)
      : n(floats_per_row),
        workers(workers),
        numbers(queue.allocate(workers * n * sizeof(float))),
        out(queue.allocate(n * sizeof(float))),
        z(queue.allocate(kSketchBins * sizeof(float))),
        sums(queue.allocate((math::packed_size(workers) + 3 * workers + 1) * sizeof(double))) {
    const std::vector<float> repeated = pattern();
    const kernels::Block host = queue.allocate_on_host(kPattern * sizeof(float));
    std::memcpy(host.get(), repeated.data(), kPattern * sizeof(float));
    const std::size_t bytes = workers * n * sizeof(float);
    std::size_t filled = std::min(bytes, kPattern * sizeof(float));
    queue.copy(numbers.get(), host.get(), filled);
    for (std::size_t part = 0; filled < bytes; filled += part) {
      part = std::min(filled, bytes - filled);
      queue.copy(numbers.get() + filled, numbers.get(), part);
    }
    for (std::size_t i = 0; i < workers; ++i) rows.push_back(numbers.get() + i * n * sizeof(float));
    const kernels::Block coefficients_on_host = queue.allocate_on_host(workers * sizeof(double));
    for (std::size_t i = 0; i < workers; ++i)
      reinterpret_cast<double*>(coefficients_on_host.get())[i] = 1.0 / static_cast<double>(workers);
    queue.copy(coefficients(), coefficients_on_host.get(), workers * sizeof(double));
    wait_for(queue);
  }

  kernels::Rows all(std::size_t size) const { return {rows, size, Number::float32}; }
  double* K() const { return reinterpret_cast<double*>(sums.get()); }
  double* d() const { return K() + math::packed_size(workers); }
  double* q() const { return d() + workers; }
  double* coefficients() const { return q() + workers; }
  double* square() const { return coefficients() + workers; }
  std::span<float> sketch() const { return {reinterpret_cast<float*>(z.get()), kSketchBins}; }

  std::size_t n, workers;
  kernels::Block numbers, out, z, sums;
  std::vector<const void*> rows;
};

void require_close(const char* kernel, double got, double expected, double scale) {
  if (std::abs(got - expected) <= 1e-6 * scale) return;
  throw Error(ErrorCode::mismatch, fmt::format("The CUDA kernel {} gave {} where its reference gives {}: its timing "
                                               "would mean nothing. This is a bug, please report it.",
                                               kernel, got, expected));
}

template <typename T>
std::vector<T> downloaded(kernels::Queue& queue, const void* from, std::size_t count) {
  const kernels::Block host = queue.allocate_on_host(count * sizeof(T));
  queue.copy(host.get(), from, count * sizeof(T));
  wait_for(queue);
  std::vector<T> values(count);
  std::memcpy(values.data(), host.get(), count * sizeof(T));
  return values;
}

void check_kernels(kernels::Queue& queue, const DeviceBlock& block) {
  const std::size_t workers = block.workers, n = std::min(block.n, kChecked);
  queue.add_gram(block.all(n), block.K());
  queue.add_row_statistics(block.all(n), block.d(), block.q());
  queue.weighted_sum(block.all(n), block.coefficients(), Numbers(block.out.get(), n, Number::float32));
  const kernels::SketchKey key = kernels::sketch_key(1, 1);
  queue.add_sketch({block.rows[0], n, Number::float32}, key, 1, block.sketch(), block.square());
  const auto K = downloaded<double>(queue, block.K(), math::packed_size(workers));
  const auto d = downloaded<double>(queue, block.d(), workers), q = downloaded<double>(queue, block.q(), workers);
  const auto out = downloaded<float>(queue, block.out.get(), n),
             z = downloaded<float>(queue, block.z.get(), kSketchBins);

  const std::vector<float> numbers = pattern();
  const auto at = [&](std::size_t i, std::size_t k) {
    return static_cast<double>(numbers[(i * block.n + k) % kPattern]);
  };
  const auto scale = 2 * static_cast<double>(n);
  for (std::size_t i = 0; i < workers; ++i) {
    double of_row = 0;
    for (std::size_t j = 0; j < workers; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum += at(i, k) * at(j, k);
      of_row += sum;
      if (j <= i) require_close("gram", K[math::packed_index(i, j)], sum, scale);
      if (j == i) require_close("row_statistics", q[i], sum, scale);
    }
    require_close("row_statistics", d[i], of_row, scale * static_cast<double>(workers));
  }
  std::vector<double> bins(kSketchBins);
  for (std::size_t k = 0; k < n; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < workers; ++i) sum += at(i, k) / static_cast<double>(workers);
    require_close("weighted_sum", static_cast<double>(out[k]), sum, 4);
    const std::uint64_t l = kernels::kSketchChunk + k;
    bins[kernels::sketch_bin(l, key, kSketchBins)] += kernels::sketch_sign(l, key) == 0 ? at(0, k) : -at(0, k);
  }
  for (std::size_t b = 0; b < kSketchBins; ++b) require_close("sketch", static_cast<double>(z[b]), bins[b], 40);
}

}  // namespace

TargetResult CudaKernelBench::k2() const {
  const auto gram = std::ranges::find(figures, "gram", &CudaKernelFigure::name);
  return at_least(
      "K2",
      fmt::format("Gram sweep / copy within the device, bytes per second, P = {}, n = {}", workers, floats_per_row),
      gram->of_copy, workers <= 16 ? 0.90 : 0.50);
}

CudaKernelBench run_cuda_kernel_bench(const CudaKernelBenchOptions& options) {
  if (const std::string why = kernels::cuda::why_unavailable(); !why.empty()) throw Error(ErrorCode::unavailable, why);
  if (options.workers == 0 || options.workers > 64)
    throw Error(ErrorCode::bad_input, "The benchmark of CUDA kernels takes 1 to 64 workers.");
  const std::size_t n = options.bytes / sizeof(float) / options.workers / 64 * 64;  // rows that begin on 256 bytes
  if (n == 0) throw Error(ErrorCode::bad_input, "The benchmark of CUDA kernels needs at least 64 floats per worker.");

  const auto queue = kernels::cuda::make_queue(options.device);
  const DeviceBlock block(*queue, options.workers, n);
  check_kernels(*queue, block);

  // Half of the block onto the other half: as many bytes read and written as the sweep reads.
  const std::size_t bytes = options.workers * n * sizeof(float);
  const kernels::SketchKey key = kernels::sketch_key(1, 1);
  const kernels::ConstNumbers whole(block.numbers.get(), options.workers * n, Number::float32);
  struct Sweep {
    std::string name;
    double bytes;
    std::function<void()> run;
  };
  const std::vector<Sweep> sweeps = {
      {"copy", static_cast<double>(bytes),
       [&] { queue->copy(block.numbers.get() + bytes / 2, block.numbers.get(), bytes / 2); }},
      {"gram", static_cast<double>(bytes), [&] { queue->add_gram(block.all(n), block.K()); }},
      {"row_statistics", static_cast<double>(bytes),
       [&] { queue->add_row_statistics(block.all(n), block.d(), block.q()); }},
      {"weighted_sum", static_cast<double>(bytes + n * sizeof(float)),
       [&] { queue->weighted_sum(block.all(n), block.coefficients(), Numbers(block.out.get(), n, Number::float32)); }},
      {"sketch", static_cast<double>(bytes), [&] { queue->add_sketch(whole, key, 0, block.sketch(), block.square()); }},
  };
  std::vector<Contender> contenders;
  for (const Sweep& sweep : sweeps)
    contenders.push_back({sweep.name, [&queue, &options, run = sweep.run] {
                            for (std::size_t r = 0; r < options.repetitions; ++r) run();
                            wait_for(*queue);
                          }});
  const Timings timings = run_interleaved(contenders, options.harness);

  CudaKernelBench result;
  result.device = queue->device();
  result.workers = options.workers;
  result.floats_per_row = n;
  for (const Sweep& sweep : sweeps) {
    const auto repetitions = static_cast<double>(options.repetitions);
    Spread seconds = timings.seconds(sweep.name), of_copy = timings.ratio("copy", sweep.name);
    for (double* each : {&seconds.median, &seconds.lower, &seconds.upper}) *each /= repetitions;
    for (double* each : {&of_copy.median, &of_copy.lower, &of_copy.upper})
      *each *= sweep.bytes / static_cast<double>(bytes);
    result.figures.push_back({.name = sweep.name,
                              .seconds = seconds,
                              .gigabytes_per_second = sweep.bytes / seconds.median / 1e9,
                              .of_copy = of_copy});
  }
  return result;
}

}  // namespace flockstep::bench
