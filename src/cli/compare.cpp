#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "cli/arguments.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/table.h"

namespace flockstep::cli {
namespace {

std::string with_spread(const compare::Spread& spread, int runs) {
  // Large numbers in full, small ones to four digits.
  const auto readable = [](double value) {
    return std::abs(value) >= 1000 && std::abs(value) < 1e9 ? fmt::format("{:.0f}", value)
                                                            : fmt::format("{:.4g}", value);
  };
  return runs > 1 ? fmt::format("{} ± {}", readable(spread.mean), readable(spread.deviation)) : readable(spread.mean);
}

std::string table_of(const compare::Comparison& comparison) {
  Table table({"algorithm", comparison.metric + (comparison.lower_is_better ? " (lower is better)" : ""), "samples/s",
               "waiting", "time in steps", "kB sent/step", "runs"});
  for (const compare::Row& row : comparison.rows)
    table.add({row.algorithm, with_spread(row.quality, row.runs), with_spread(row.samples_per_s, row.runs),
               fmt::format("{:.1f}%", 100 * row.wait_share.mean), fmt::format("{:.3g} s", row.time_s.mean),
               fmt::format("{:.4g}", row.bytes_sent_per_step / 1000), std::to_string(row.runs)});
  return table.text();
}

int run_compare(const RunFlags& flags, const std::string& algorithms, int seeds) {
  compare::CompareRequest request;
  request.base = request_of(flags);
  request.base.on_start = learn_peers;
  request.out = flags.out;
  request.base.train.out.clear();
  request.seeds = seeds;
  if (!launched()) request.stop_requested = interrupted;  // processes under a launcher could disagree between runs
  request.algorithms = split_list(algorithms);
  for (const std::string& algorithm : request.algorithms)
    request.algorithm_settings[algorithm] = settings_of(flags, algorithm);
  warn_when_bound_to_one_core();

  Progress progress;
  const auto execute = [&](const tasks::RunRequest& run) {
    if (run.engine == "sim") return run_in_child(run);  // its clock starts once per process
    progress.begin(fmt::format("{}, seed {}", run.train.algorithm, run.train.seed));
    const train::Observer observer{[&](std::int64_t step, std::int64_t steps) { progress.show(step, steps); },
                                   interrupted};
    tasks::RunOutcome outcome = tasks::run(run, observer);
    progress.clear();
    return outcome;
  };
  const compare::Comparison comparison = compare::compare(request, execute);
  if (comparison.rank != 0) return 0;
  if (flags.json) {
    fmt::print("{}\n", compare::to_json(comparison).dump(2));
    return 0;
  }
  fmt::print("{}, {} workers on {}\n\n{}", flags.task, comparison.workers, request.base.engine, table_of(comparison));
  if (const std::string verdict = compare::verdict(comparison); !verdict.empty()) fmt::print("\n{}\n", verdict);
  if (comparison.interrupted) fmt::print("Interrupted: this is what was measured so far.\n");
  if (!flags.out.empty()) fmt::print("Metrics, traces and results are in {}.\n", flags.out);
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, Action& chosen) {
  CLI::App& command = *app.add_subcommand("compare", "train with several algorithms and seeds, side by side");
  const auto flags = std::make_shared<RunFlags>();
  const auto algorithms = std::make_shared<std::string>();
  const auto seeds = std::make_shared<int>(1);
  for (const auto& row : algorithms::algorithms())
    *algorithms += (algorithms->empty() ? "" : ",") + std::string(row.name);
  add_run_flags(command, *flags);
  command.add_option("--algorithms", *algorithms, "comma-separated")->capture_default_str();
  command.add_option("--seeds", *seeds, "runs per algorithm, with seeds counted up from --seed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.callback([flags, algorithms, seeds, &chosen] {
    chosen = [flags, algorithms, seeds] { return run_compare(*flags, *algorithms, *seeds); };
  });
}

}  // namespace flockstep::cli
