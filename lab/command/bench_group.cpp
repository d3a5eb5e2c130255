#include "bench/group.h"

#include <fmt/format.h>

#include "base/text.h"
#include "command/arguments.h"
#include "command/bench.h"
#include "command/table.h"
#include "engines/launcher.h"

namespace flockstep::command {
namespace {

// A column per group size.
Table table_of(const bench::GroupBench& result) {
  std::vector<std::string> head{"ms"}, round{"wait-avoiding round"},
      all_reduce{result.own_ring ? "a ring all-reduce in each group (the engine has none)"
                                 : "the engine's own all-reduce in each group"},
      doubling{"recursive doubling as published"}, fresh{"fresh arrivals, %"};
  for (const bench::GroupTimes& times : result.sizes) {
    head.push_back(fmt::format("S = {}", times.group_size));
    round.push_back(milliseconds(times.round_seconds));
    all_reduce.push_back(milliseconds(times.all_reduce_seconds));
    doubling.push_back(times.doubling_seconds ? milliseconds(*times.doubling_seconds) : "needs equal powers of two");
    fresh.push_back(fmt::format("{:.0f}", 100 * times.fresh_share));
  }
  Table table(head);
  for (auto& row : {round, all_reduce, doubling, fresh}) table.add(row);
  return table;
}

}  // namespace

int bench_group(const BenchFlags& flags) {
  bench::GroupBenchOptions options;
  options.engine = engines::resolve_engine(flags.engine);
  options.launch = launch_of(flags, options.engine);
  options.floats = flags.floats;
  if (!flags.group_size.empty()) options.group_sizes = numbers_of("--group-size", flags.group_size, 2);
  if (flags.rounds > 0) options.harness.rounds = flags.rounds;
  const bench::GroupBench result = bench::run_group_bench(options);
  if (result.rank != 0) return 0;
  if (!flags.json) {
    fmt::print("{} on {}, {} floats; medians and quartiles of the slowest worker\n",
               base::counted(result.workers, "worker"), options.engine, flags.floats);
    fmt::print("{}\n", table_of(result).text());
    Table guards({"ms", "without guard", "with guard"});
    for (const bench::GuardTimes& times : result.guards)
      guards.add({fmt::format("round, {} merge, S = {}", times.merge, times.group_size),
                  milliseconds(times.round_seconds), milliseconds(times.guarded_seconds)});
    fmt::print("{}\n", guards.text());
    fmt::print("worker r {:.0f} r ms late, {} floats, back to back; what worker 0 spends\n",
               1e3 * bench::kLateness.count(), bench::kLateFloats);
    Table late({"operation", "ms"});
    late.add({"wait-avoiding round", milliseconds(result.late.round_seconds)});
    late.add({result.own_ring ? "a ring all-reduce over all (the engine has none)" : "the engine's own all-reduce",
              milliseconds(result.late.all_reduce_seconds)});
    fmt::print("{}\n", late.text());
  }
  print_targets(result.targets, flags.json);
  return 0;
}

}  // namespace flockstep::command
