#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "bench/adacons.h"
#include "bench/kernels.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/table.h"

namespace flockstep::cli {
namespace {

struct BenchFlags {
  std::string name;
  std::string workers;
  std::string engine = "auto", wire = "float32";
  double compute_ms = 100;
  std::size_t floats = 25'600'000;
  std::int64_t bucket_kib = 4096;
  std::size_t rounds = 15;
  std::size_t megabytes = 1024;
  bool json = false;
};

nlohmann::json to_json(const bench::TargetResult& target) {
  return {{"id", target.id},
          {"measure", target.measure},
          {"figure", target.figure},
          {"lower", target.spread.lower},
          {"upper", target.spread.upper},
          {"bar", target.bar},
          {"holds", target.holds()}};
}

std::string milliseconds(const bench::Spread& spread) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", 1e3 * spread.median, 1e3 * spread.lower, 1e3 * spread.upper);
}
std::string ratio(const bench::Spread& spread) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", spread.median, spread.lower, spread.upper);
}

// The line that every benchmark ends with.
void print_targets(const std::vector<bench::TargetResult>& targets, bool json) {
  if (json) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& target : targets) all.push_back(to_json(target));
    fmt::print("{}\n", all.dump(2));
    return;
  }
  for (const auto& target : targets)
    fmt::print("{} {}: {:.3f}, {} {:.2f}: {}\n", target.id, target.measure, target.figure,
               target.at_most ? "at most" : "at least", target.bar, target.holds() ? "holds" : "does not hold");
}

int bench_kernels(const BenchFlags& flags) {
  std::vector<bench::TargetResult> targets;
  if (!flags.workers.empty() && split_list(flags.workers).empty())
    throw Error(ErrorCode::bad_input,
                fmt::format("--workers takes numbers such as 8 or 8,16,32, not '{}'", flags.workers));
  for (const std::string& workers : split_list(flags.workers.empty() ? "8,16,32" : flags.workers)) {
    bench::KernelBenchOptions options;
    options.workers = static_cast<std::size_t>(base::parse_integer("--workers", workers, 1, 4096));
    options.bytes = flags.megabytes * 1000 * 1000;
    options.harness.rounds = flags.rounds;
    const bench::KernelBench result = bench::run_kernel_bench(options);
    if (!flags.json) {
      fmt::print("P = {}, {} floats a row, {}, one thread; medians and quartiles\n", result.workers,
                 result.floats_per_row, result.simd_target);
      Table table({"kernel", "ms", "GB/s", "time / read sweep", "time / tuned read sweep"});
      for (const auto* figure :
           {&result.read, &result.tuned_read, &result.gram, &result.row_statistics, &result.weighted_sum})
        table.add({figure->name, milliseconds(figure->seconds), fmt::format("{:.1f}", figure->gigabytes_per_second),
                   ratio(figure->over_read), ratio(figure->over_tuned_read)});
      fmt::print("{}\n", table.text());
    }
    if (const auto k1 = result.k1()) targets.push_back(*k1);
  }
  print_targets(targets, flags.json);
  return 0;
}

int bench_adacons(const BenchFlags& flags) {
  bench::AdaConsBenchOptions options;
  options.engine = resolve_engine(flags.engine);
  const bool is_mpi = options.engine == "mpi";
  options.launch.workers = flags.workers.empty()
                               ? (is_mpi ? 0 : 4)
                               : static_cast<int>(base::parse_integer("--workers", flags.workers, 1, 1 << 20));
  options.floats = flags.floats;
  options.bucket_kib = flags.bucket_kib;
  options.wire = flags.wire;
  options.compute_ms = flags.compute_ms;
  options.harness.rounds = flags.rounds;
  const bench::AdaConsBench result = bench::run_adacons_bench(options);
  if (result.rank != 0) return 0;
  if (!flags.json) {
    fmt::print("{} workers on {}, {} floats; medians and quartiles of the slowest worker\n", result.workers,
               options.engine, flags.floats);
    Table table({"operation", "ms"});
    table.add({"adacons, one pass", milliseconds(result.one_pass_seconds)});
    table.add({"adacons, two all-reduces as published", milliseconds(result.two_all_reduces_seconds)});
    table.add({result.own_ring ? "a ring all-reduce (the engine has none)" : "the engine's own all-reduce",
               milliseconds(result.all_reduce_seconds)});
    table.add({"mean, one pass", milliseconds(result.mean_seconds)});
    if (flags.compute_ms > 0) {
      table.add({fmt::format("exposed after {:.4g} ms of backward", flags.compute_ms),
                 milliseconds(result.exposed_after_seconds)});
      table.add({"exposed when overlapped with it", milliseconds(result.exposed_overlapped_seconds)});
    }
    fmt::print("{}\n", table.text());
  }
  print_targets(result.targets, flags.json);
  return 0;
}

struct BenchRow {
  std::string_view name;
  std::string_view description;
  int (*run)(const BenchFlags&);
};
constexpr std::array<BenchRow, 2> kBenches{{
    {"kernels", "the SIMD sweeps against a plain read of the same bytes (K1)", bench_kernels},
    {"adacons", "aggregation in one pass against all-reduces (A1, A2, A5, A6); under mpirun or on threads",
     bench_adacons},
}};

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App& command = *app.add_subcommand("bench", "measure a target of docs/benchmarks.md on this machine");
  const auto flags = std::make_shared<BenchFlags>();
  std::string names;
  for (const BenchRow& row : kBenches) names += fmt::format("\n  {:8} {}", row.name, row.description);
  command.add_option("NAME", flags->name, "which:" + names)->required();
  command.add_option("--workers", flags->workers, "P [kernels: 8,16,32; adacons: 4, or what mpirun started]");
  command.add_option("--engine", flags->engine, "adacons: the engine; auto: mpi under mpirun, else threads")
      ->capture_default_str();
  command.add_option("--floats", flags->floats, "adacons: length of the gradient")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--bucket-kib", flags->bucket_kib, "adacons: size of a bucket")
      ->check(CLI::Range(1, 1 << 21))
      ->capture_default_str();
  command.add_option("--wire", flags->wire, "adacons: float32 or bfloat16")->capture_default_str();
  command.add_option("--compute-ms", flags->compute_ms, "adacons: pretended backward pass to overlap with; 0: none")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
  command.add_option("--megabytes", flags->megabytes, "kernels: size of the block")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--rounds", flags->rounds, "timed rounds")->check(CLI::Range(1, 100000))->capture_default_str();
  command.add_flag("--json", flags->json, "one object per target: id, figure, bar, holds");
  command.callback([flags, &chosen] {
    chosen = [flags] {
      return base::find_by_name(std::span<const BenchRow>(kBenches), flags->name, "benchmark").run(*flags);
    };
  });
}

}  // namespace flockstep::cli
