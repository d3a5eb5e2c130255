#include "command/bench.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/schema.h"
#include "base/split.h"
#include "bench/straggler.h"
#include "command/arguments.h"
#include "command/commands.h"
#include "command/completion.h"
#include "command/progress.h"
#include "engines/launcher.h"

namespace flockstep::command {
namespace {

nlohmann::json to_json(const bench::TargetResult& target) {
  return {{"id", target.id},
          {"measure", target.measure},
          {"figure", target.figure},
          {"lower", target.spread.lower},
          {"upper", target.spread.upper},
          {"bar", target.bar},
          {"at_most", target.at_most},
          {"holds", target.holds()}};
}

struct BenchRow {
  std::string_view name;
  std::string_view description;
  int (*run)(const BenchFlags&);
};
constexpr std::array<BenchRow, 4> kBenches{{
    {"kernels", "the sweeps against a plain read of the same bytes (K1, A9), or on a GPU against a copy (K2)",
     bench_kernels},
    {"adacons", "aggregation in one pass against all-reduces (A1, A2, A5, A6); under mpirun or on threads",
     bench_adacons},
    {"group",
     "rounds of wait-avoiding group averaging against all-reduces (W1 to W3, W5, W6, R3); under mpirun or on threads",
     bench_group},
    {"straggler", "training with late workers, wait-avoiding against synchronous (W4); under mpirun or on threads",
     bench_straggler},
}};

}  // namespace

std::vector<int> numbers_of(const std::string& flag, const std::string& text, int lowest) {
  std::vector<int> numbers;
  for (const std::string& number : base::split(text, ',')) {
    if (number.empty())
      throw Error(ErrorCode::bad_input, fmt::format("{} takes numbers such as 8 or 8,16,32, not '{}'", flag, text));
    numbers.push_back(static_cast<int>(base::parse_integer(flag, number, lowest, 4096)));
  }
  return numbers;
}

engines::LaunchOptions launch_of(const BenchFlags& flags, const std::string& engine) {
  engines::LaunchOptions launch;
  launch.workers = engines::is_launched(engine) ? 0 : 4;
  if (!flags.workers.empty())
    launch.workers = static_cast<int>(base::parse_integer("--workers", flags.workers, 1, 1 << 20));
  return launch;
}

std::string milliseconds(const bench::Spread& spread) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", 1e3 * spread.median, 1e3 * spread.lower, 1e3 * spread.upper);
}
std::string ratio(const bench::Spread& spread) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", spread.median, spread.lower, spread.upper);
}

void print_targets(const std::vector<bench::TargetResult>& targets, bool json) {
  if (json) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& target : targets) {
      all.push_back(to_json(target));
      all.back()["schema"] = base::kSchema;
    }
    fmt::print("{}\n", all.dump(2));
    return;
  }
  if (!targets.empty())
    fmt::print("A ratio is the median of the ratios within a round, not the ratio of the medians above.\n");
  for (const auto& target : targets)
    fmt::print("{} {}: {:.3f}, {} {:.2f}: {}\n", target.id, target.measure, target.figure,
               target.at_most ? "at most" : "at least", target.bar, target.holds() ? "holds" : "does not hold");
}

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App& command = *app.add_subcommand("bench", "measure a target of docs/benchmarks.md on this machine");
  const auto flags = std::make_shared<BenchFlags>();
  std::string lines, names;
  for (const BenchRow& row : kBenches) {
    lines += fmt::format("\n  {:9} {}", row.name, row.description);
    names += fmt::format("{}{}", names.empty() ? "" : "|", row.name);
  }
  command.add_option("NAME", flags->name, "which:" + lines)->required()->type_name(names);
  command.add_option(
      "--workers", flags->workers,
      "number of workers P [kernels: 8,16,32, on a GPU 2,4,8,16,32; others: 4, or the processes of mpirun]");
  command
      .add_option("--engine", flags->engine,
                  "engine of all benchmarks but kernels; auto: mpi under mpirun, else threads")
      ->type_name(kEngine)
      ->capture_default_str();
  command.add_option("--device", flags->device, "kernels: cpu or cuda")->type_name("cpu|cuda")->capture_default_str();
  command.add_option("--floats", flags->floats, "adacons, group: length of the gradient or model")
      ->check(whole(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--bucket-kib", flags->bucket_kib, "adacons: size of a bucket")
      ->check(whole(1, 1 << 21))
      ->capture_default_str();
  command.add_option("--wire", flags->wire, "adacons: float32 or bfloat16")
      ->type_name("float32|bfloat16")
      ->capture_default_str();
  command.add_option("--group-size", flags->group_size,
                     "group: group sizes S, such as 4,8, at most P [the default of wagma for P, 4 and 8]");
  command
      .add_option(
          "--compute-ms", flags->compute_ms,
          "adacons: length of a pretended backward pass to overlap with, 0: none; straggler: compute time of a step")
      ->check(real(0, 1e5))
      ->capture_default_str();
  command.add_option("--megabytes", flags->megabytes, "kernels: size of the block")
      ->check(whole(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--algorithms", flags->algorithms, "straggler: compared with mean")
      ->type_name(kAlgorithms)
      ->capture_default_str();
  command
      .add_option("--straggler", flags->straggler,
                  "straggler: 2x320ms delays two random workers by 320 ms in each step; or independent:2x320ms")
      ->capture_default_str();
  command.add_option("--steps", flags->steps, "straggler: of one run")
      ->check(whole(1, bench::kMostStragglerSteps))
      ->capture_default_str();
  command.add_option("--period", flags->period, "straggler: tau")->check(whole(1, 1 << 30))->capture_default_str();
  command.add_option("--rounds", flags->rounds, "timed rounds [15; straggler: 2]")->check(whole(1, 100000));
  command.add_flag("--json", flags->json, "one object per target: id, figure, bar, at_most, holds");
  command.callback([flags, &chosen] {
    chosen = [flags] {
      const BenchRow& row = base::find_by_name(std::span<const BenchRow>(kBenches), flags->name, "benchmark");
      Progress progress;
      progress.begin_uncounted(fmt::format("measuring {}", row.name));
      return row.run(*flags);
    };
  });
}

}  // namespace flockstep::command
