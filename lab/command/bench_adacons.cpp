#include "bench/adacons.h"

#include <fmt/format.h>

#include "base/text.h"
#include "command/arguments.h"
#include "command/bench.h"
#include "command/table.h"
#include "engines/launcher.h"

namespace flockstep::command {

int bench_adacons(const BenchFlags& flags) {
  bench::AdaConsBenchOptions options;
  options.engine = engines::resolve_engine(flags.engine);
  options.launch = launch_of(flags, options.engine);
  options.floats = flags.floats;
  options.bucket_kib = flags.bucket_kib;
  options.wire = flags.wire;
  options.compute_ms = flags.compute_ms;
  if (flags.rounds > 0) options.harness.rounds = flags.rounds;
  const bench::AdaConsBench result = bench::run_adacons_bench(options);
  if (result.rank != 0) return 0;
  if (!flags.json) {
    fmt::print("{} on {}, {} floats; medians and quartiles of the slowest worker\n",
               base::counted(result.workers, "worker"), options.engine, flags.floats);
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
      table.add({"the same with transfer = sketch", milliseconds(result.exposed_sketch_seconds)});
      table.add({"the same for mean", milliseconds(result.exposed_mean_seconds)});
    }
    fmt::print("{}\n", table.text());
  }
  print_targets(result.targets, flags.json);
  return 0;
}

}  // namespace flockstep::command
