#include "bench/straggler.h"

#include <fmt/format.h>

#include "base/text.h"
#include "command/arguments.h"
#include "command/bench.h"
#include "command/table.h"
#include "engines/launcher.h"

namespace flockstep::command {

int bench_straggler(const BenchFlags& flags) {
  bench::StragglerBenchOptions options;
  options.engine = engines::resolve_engine(flags.engine);
  options.launch = launch_of(flags, options.engine);
  options.algorithms = names_of("--algorithms", flags.algorithms);
  options.steps = flags.steps;
  options.period = flags.period;
  options.pace.compute = base::Duration(1e-3 * flags.compute_ms);
  train::parse_straggler(flags.straggler, options.pace);
  if (flags.rounds > 0) options.rounds = flags.rounds;
  const bench::StragglerBench result = bench::run_straggler_bench(options);
  if (result.rank != 0) return 0;
  if (!flags.json) {
    fmt::print("{} on {}, {} of {:.4g} ms, {} late in each; medians and quartiles of {}\n",
               base::counted(result.workers, "worker"), options.engine, base::counted(options.steps, "step"),
               flags.compute_ms, flags.straggler, base::counted(options.rounds, "round"));
    Table table({"algorithm", "samples/s", "over mean", "waiting, %"});
    for (const bench::Throughput& each : result.algorithms)
      table.add({each.algorithm, fmt::format("{:.1f}", each.samples_per_s.median), ratio(each.over_mean),
                 fmt::format("{:.0f}", 100 * each.wait_share)});
    fmt::print("{}\n", table.text());
  }
  print_targets(result.targets, flags.json);
  return 0;
}

}  // namespace flockstep::command
