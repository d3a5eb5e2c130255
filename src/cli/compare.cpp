#include "compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithms/registry.h"
#include "cli/arguments.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "engines/launcher.h"

namespace flockstep::cli {
namespace {

using compare::Statistic;

// The report's tables (python/flockstep/report/tables.py) read like those made here.

// Large numbers in full, small ones to four digits.
std::string readable(double value) {
  if (!std::isfinite(value)) return "diverged";
  return std::abs(value) >= 1000 && std::abs(value) < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string shown(const compare::Spread& spread, int runs, Statistic statistic) {
  if (statistic == Statistic::median)
    return runs > 1 && std::isfinite(spread.min)
               ? fmt::format("{} ({}..{})", readable(spread.median), readable(spread.min), readable(spread.max))
               : readable(spread.median);
  return runs > 1 ? fmt::format("{} ± {}", readable(spread.mean), readable(spread.deviation)) : readable(spread.mean);
}

std::string quality_of(const compare::Result& result, Statistic statistic) {
  const std::string text = shown(result.quality, result.runs, statistic);
  return result.diverged > 0 && result.runs > 1
             ? fmt::format("{}, {} of {} diverged", text, result.diverged, result.runs)
             : text;
}

std::string quality_head(const compare::Comparison& comparison, Statistic statistic) {
  std::string head = comparison.metric;
  if (statistic == Statistic::mean) head += ", mean ± deviation";
  if (statistic == Statistic::median) head += ", median (min..max)";
  return head + (comparison.lower_is_better ? "; lower is better" : "");
}

// The name of the searched option, if there is one in this case.
std::string searched_name(const compare::CaseResult& result) {
  for (const compare::Row& row : result.rows)
    if (row.searched) return row.searched->name;
  return "";
}

// Of the steps that were merged with an average, those whose own model was in it.
std::string fresh_of(const compare::Result& result) {
  if (!result.meetings || !std::isfinite(result.meetings->fresh_fraction.mean)) return "-";
  return fmt::format("{:.1f}%", 100 * result.meetings->fresh_fraction.mean);
}

std::string table_of(const compare::Comparison& comparison, const compare::CaseResult& result) {
  const Statistic statistic = statistic_of(result);
  const std::string searched = searched_name(result);
  const bool meet = std::ranges::any_of(result.rows, [](const auto& row) { return row.result.meetings.has_value(); });
  std::vector<std::string> head{"algorithm"};
  if (!searched.empty()) head.push_back(searched);
  for (const std::string& name :
       {quality_head(comparison, statistic), std::string("samples/s"), std::string("waiting")})
    head.push_back(name);
  if (meet) head.push_back("fresh");
  for (const char* name : {"time in steps", "kB sent/step", "runs"}) head.push_back(name);
  Table table(head);
  for (const compare::Row& row : result.rows) {
    const compare::Result& figures = row.result;
    std::vector<std::string> cells{row.algorithm};
    if (!searched.empty())
      cells.push_back(row.searched ? row.searched->value + (row.searched->edge ? " (edge)" : "") : "-");
    for (const std::string& cell :
         {quality_of(figures, statistic), shown(figures.samples_per_s, figures.runs, Statistic::mean),
          fmt::format("{:.1f}%", 100 * figures.wait_share.mean)})
      cells.push_back(cell);
    if (meet) cells.push_back(fresh_of(figures));
    for (const std::string& cell :
         {fmt::format("{:.3g} s", figures.time_s.mean), fmt::format("{:.4g}", figures.bytes_sent_per_step / 1000),
          std::to_string(figures.runs)})
      cells.push_back(cell);
    table.add(cells);
  }
  return table.text();
}

void print(const compare::Comparison& comparison, const RunFlags& flags, const std::string& engine) {
  bool edge = false;
  for (const compare::CaseResult& result : comparison.cases) {
    fmt::print("{}, {} workers on {}, batch {}\n\n{}", flags.task, result.workers, engine, result.batch,
               table_of(comparison, result));
    if (const std::string verdict = compare::verdict(comparison, result); !verdict.empty())
      fmt::print("\n{}\n", verdict);
    fmt::print("\n");
    edge = edge || std::ranges::any_of(result.rows, [](const auto& row) { return row.searched && row.searched->edge; });
  }
  if (edge) fmt::print("(edge): the best value is the smallest or largest that was tried; look beyond it.\n");
  if (comparison.interrupted) fmt::print("Interrupted: this is what was measured so far.\n");
  if (!flags.out.empty()) fmt::print("Metrics, traces and results are in {}.\n", flags.out);
  std::fflush(stdout);
}

// A comparison without its pictures is still one: what stands in their way is told, and that is all.
void report(const RunFlags& flags) {
  try {
    const std::string page = draw_report(flags.out);
    if (!flags.json) fmt::print("The report is {}.\n", page);
  } catch (const Error& error) {
    if (*error.what()) fmt::print(stderr, "flockstep: no report: {}\n", error.what());
  }
}

// Under a launcher there is one number of workers: that of the processes it has started.
void require_launched_size(const RunFlags& flags, tasks::RunRequest& base) {
  const auto here = engines::launched();
  if (base.engine != "mpi" || !here) return;
  for (const int workers : flags.workers)
    if (workers != here->size)
      throw Error(ErrorCode::bad_input,
                  fmt::format("mpirun has started {} workers, so this comparison cannot have {}: start mpirun once for "
                              "each number of workers",
                              here->size, workers));
  base.launch.workers = here->size;
}

struct CompareFlags {
  RunFlags run;
  std::string algorithms, search;
  int seeds = 1;
};

int run_compare(const CompareFlags& given) {
  const RunFlags& flags = given.run;
  compare::CompareRequest request;
  request.base = request_of(flags);
  request.base.on_start = learn_peers;
  request.out = flags.out;
  request.base.train.out.clear();
  request.seeds = given.seeds;
  request.search = given.search;
  require_launched_size(flags, request.base);
  request.workers = flags.workers;
  request.batches = flags.batch;
  if (!engines::launched())
    request.stop_requested = interrupted;  // processes under a launcher could disagree between runs
  request.algorithms = split_list(given.algorithms);
  for (const auto& row : algorithms::algorithms())
    request.algorithm_settings[std::string(row.name)] = settings_of(flags, row.name);
  warn_when_bound_to_one_core();

  Progress progress;
  const auto execute = [&](const compare::PlannedRun& run) {
    if (run.request.engine == "sim") return run_in_child(run.request);  // its clock starts once per process
    progress.begin(run.title);
    const train::Observer observer{[&](std::int64_t step, std::int64_t steps) { progress.show(step, steps); },
                                   interrupted};
    tasks::RunOutcome outcome = tasks::run(run.request, observer);
    progress.clear();
    return outcome;
  };
  const compare::Comparison comparison = compare::compare(request, execute);
  if (comparison.rank != 0) return 0;
  if (flags.json)
    fmt::print("{}\n", compare::to_json(comparison).dump(2));
  else
    print(comparison, flags, request.base.engine);
  if (!flags.out.empty() && !comparison.cases.empty()) report(flags);
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, Action& chosen) {
  CLI::App& command = *app.add_subcommand("compare", "train with several algorithms, seeds and sizes, side by side");
  const auto flags = std::make_shared<CompareFlags>();
  for (const auto& row : algorithms::algorithms())
    flags->algorithms += (flags->algorithms.empty() ? "" : ",") + std::string(row.name);
  add_run_flags(command, flags->run, Sizes::lists);
  command
      .add_option("--algorithms", flags->algorithms,
                  "comma-separated; an entry may bring options of its own, such as local_sgd:period=4")
      ->capture_default_str();
  command.add_option("--search", flags->search,
                     "try each value of an option of the task or an algorithm and keep each algorithm's best, such as "
                     "local_sgd.period=2,4,8");
  command.add_option("--seeds", flags->seeds, "runs per algorithm, with seeds counted up from --seed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.callback([flags, &chosen] { chosen = [flags] { return run_compare(*flags); }; });
}

}  // namespace flockstep::cli
