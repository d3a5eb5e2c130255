#include "bench/kernels.h"

#include <fmt/format.h>

#include "bench/cuda_kernels.h"
#include "command/bench.h"
#include "command/table.h"
#include "flockstep/error.h"

namespace flockstep::command {
namespace {

int bench_cuda_kernels(const BenchFlags& flags) {
  std::vector<bench::TargetResult> targets;
  for (const int workers : numbers_of("--workers", flags.workers.empty() ? "2,4,8,16,32" : flags.workers, 1)) {
    bench::CudaKernelBenchOptions options;
    options.workers = static_cast<std::size_t>(workers);
    options.bytes = flags.megabytes * 1000 * 1000;
    if (flags.rounds > 0) options.harness.rounds = flags.rounds;
    const bench::CudaKernelBench result = bench::run_cuda_kernel_bench(options);
    if (!flags.json) {
      fmt::print("P = {}, {} floats a row, {}; medians and quartiles\n", result.workers, result.floats_per_row,
                 result.device);
      Table table({"kernel", "ms", "GB/s", "bytes per second / copy"});
      for (const auto& figure : result.figures)
        table.add({figure.name, milliseconds(figure.seconds), fmt::format("{:.1f}", figure.gigabytes_per_second),
                   ratio(figure.of_copy)});
      fmt::print("{}\n", table.text());
    }
    targets.push_back(result.k2());
  }
  print_targets(targets, flags.json);
  return 0;
}

}  // namespace

int bench_kernels(const BenchFlags& flags) {
  if (flags.device == "cuda") return bench_cuda_kernels(flags);
  if (flags.device != "cpu")
    throw Error(ErrorCode::bad_input, fmt::format("--device takes cpu or cuda, not '{}'", flags.device));
  std::vector<bench::TargetResult> targets;
  for (const int workers : numbers_of("--workers", flags.workers.empty() ? "8,16,32" : flags.workers, 1)) {
    bench::KernelBenchOptions options;
    options.workers = static_cast<std::size_t>(workers);
    options.bytes = flags.megabytes * 1000 * 1000;
    if (flags.rounds > 0) options.harness.rounds = flags.rounds;
    const bench::KernelBench result = bench::run_kernel_bench(options);
    if (!flags.json) {
      fmt::print("P = {}, {} floats a row, {}, one thread; medians and quartiles\n", result.workers,
                 result.floats_per_row, result.simd_target);
      Table table({"kernel", "ms", "GB/s", "time / read sweep", "time / tuned read sweep"});
      for (const auto* figure : {&result.read, &result.tuned_read, &result.gram, &result.row_statistics,
                                 &result.weighted_sum, &result.sketch})
        table.add({figure->name, milliseconds(figure->seconds), fmt::format("{:.1f}", figure->gigabytes_per_second),
                   ratio(figure->over_read), ratio(figure->over_tuned_read)});
      fmt::print("{}\n", table.text());
    }
    if (const auto k1 = result.k1()) targets.push_back(*k1);
    targets.push_back(result.a9());
  }
  print_targets(targets, flags.json);
  return 0;
}

}  // namespace flockstep::command
