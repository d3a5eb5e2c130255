#include "compare/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "algorithms/registry.h"
#include "base/split.h"
#include "base/text.h"
#include "command/arguments.h"
#include "command/child_runs.h"
#include "command/commands.h"
#include "command/compare_table.h"
#include "command/completion.h"
#include "command/help.h"
#include "command/launcher.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/signals.h"
#include "engines/launcher.h"
#include "tasks/registry.h"

namespace flockstep::command {
namespace {

void print(const compare::Comparison& comparison, const RunFlags& flags) {
  for (const compare::CaseResult& result : comparison.cases) fmt::print("{}", text_of(comparison, result));
  fmt::print("{}", text_of_search(comparison));
  if (comparison.interrupted) fmt::print("Interrupted: this is what was measured so far.\n");
  for (const std::string& run : comparison.unfinished) fmt::print("{}, and has no row.\n", run);
  if (!flags.out.empty()) fmt::print("Metrics, traces and results are in {}.\n", flags.out);
  if (comparison.interrupted && !flags.out.empty()) fmt::print("The same command again continues from there.\n");
  std::fflush(stdout);
}

// A comparison without its pictures is still one: what stands in their way is told, and that is all.
void report(const RunFlags& flags) {
  try {
    Progress progress;
    progress.begin_uncounted("drawing the report");
    const std::string page = draw_report(flags.out);
    if (!flags.json) fmt::print("The report is {}.\n", page);
  } catch (const Error& error) {
    if (*error.what()) fmt::print(stderr, "flockstep: no report: {}\n", error.what());
  }
}

// Under a launcher there is one number of workers: that of the processes it has started.
void require_launched_size(const RunFlags& flags, runs::RunRequest& base) {
  const auto here = engines::launched();
  if (base.engine != "mpi" || !here) return;
  for (const int workers : flags.workers)
    if (workers != here->size)
      throw Error(ErrorCode::bad_input,
                  fmt::format("mpirun has started {}, so this comparison cannot have {}: start mpirun once for "
                              "each number of workers",
                              base::counted(here->size, "worker"), workers));
  base.launch.workers = here->size;
}

struct CompareFlags {
  RunFlags run;
  std::string algorithms = "all", search, learning_rates;
  std::optional<double> target;
  int seeds = 1, search_seeds = 0;
  std::size_t jobs = 1;
};

void require_runs_of_their_own(std::size_t jobs, const runs::RunRequest& base) {
  if (base.engine == "mesh")
    throw Error(
        ErrorCode::bad_input,
        "a comparison makes many runs, and `flockstep launch` starts the workers of one: use --engine threads or "
        "sim, or mpirun");
  if (jobs > 1 && (base.engine == "mpi" || engines::launched()))
    throw Error(ErrorCode::bad_input,
                fmt::format("--jobs {} starts a process for each run, which mpi does not allow: leave it out, "
                            "or use --engine threads or sim without mpirun",
                            jobs));
}

// --lr is short for a search of the task's learning_rate, or sets it.
void apply_learning_rates(const CompareFlags& given, compare::CompareRequest& request) {
  const std::string& text = given.learning_rates;
  if (text.empty()) return;
  train::TrainOptions& train = request.base.train;
  const auto options = tasks::find_task(train.task).options;
  const std::string name = fmt::format("{}.{}", train.task, kLearningRate);
  if (std::ranges::find(options, std::string_view(kLearningRate), &base::OptionSpec::name) == options.end())
    throw Error(ErrorCode::bad_input, fmt::format("the task {} has no {}: leave --lr out", train.task, kLearningRate));
  if (train.task_settings.contains(kLearningRate))
    throw Error(ErrorCode::bad_input, fmt::format("--lr and --{} set the same thing: give one of them", name));
  const std::vector<std::string> values = base::split(text, ',');
  if (std::ranges::count(values, "") > 0)
    throw Error(ErrorCode::bad_input, fmt::format("--lr takes numbers such as 0.1 or 0.01,0.03,0.1, not '{}'", text));
  if (given.search.starts_with(name + "=") || (!given.search.empty() && values.size() > 1))
    throw Error(ErrorCode::bad_input,
                fmt::format("--lr {} and --search {} are two searches: a comparison takes one", text, given.search));
  if (values.size() > 1)
    request.search = fmt::format("{}={}", name, text);
  else
    train.task_settings[kLearningRate] = text;
}

compare::Comparison compare_here_or_in_children(compare::CompareRequest& request, std::size_t jobs) {
  Progress progress;
  if (jobs > 1) progress.begin(fmt::format("{} at a time", jobs), "runs");
  request.on_progress = [&](std::size_t made, std::size_t to_make) {
    if (jobs > 1)
      progress.show_at_once(static_cast<std::int64_t>(made), static_cast<std::int64_t>(to_make));
    else
      progress.set_runs(made, to_make);
  };
  if (jobs > 1 || request.base.engine == "sim") {  // whose clock starts once per process
    ChildRuns runs(jobs, progress);
    return compare::compare(request, runs);
  }
  return compare::compare(request, [&](const compare::PlannedRun& run) {
    runs::RunOutcome outcome = runs::run(run.request, observer_of(progress, run.title));
    progress.clear();
    return outcome;
  });
}

int run_compare(const CompareFlags& given) {
  const RunFlags& flags = given.run;
  compare::CompareRequest request;
  request.base = request_of(flags);
  request.base.on_start = learn_peers;
  request.out = flags.out;
  request.base.train.out.clear();
  request.seeds = given.seeds;
  request.search = given.search;
  request.search_seeds = given.search_seeds;
  request.target = given.target;
  apply_learning_rates(given, request);
  request.on_earlier = [](std::ptrdiff_t done, std::size_t planned) {
    fmt::print(stderr, "flockstep: {} of {} {} already done\n", done, base::counted(planned, "run"),
               planned == 1 ? "was" : "were");
  };
  require_runs_of_their_own(given.jobs, request.base);
  require_launched_size(flags, request.base);
  request.workers = flags.workers;
  request.batches = flags.batch;
  request.base.stop_requested = stop_requested;
  if (!engines::launched())
    request.stop_requested = stop_requested;  // processes under a launcher could disagree between runs
  request.algorithms = names_of("--algorithms", given.algorithms);
  for (const auto& row : algorithms::algorithms())
    request.algorithm_settings[std::string(row.name)] = settings_of(flags, row.name);
  warn_when_bound_to_one_core();
  advise_on_sigterm(flags.out.empty() ? "; with --out the same command again would continue from there"
                                      : "; the same command again continues from there");

  const compare::Comparison comparison = compare_here_or_in_children(request, given.jobs);
  const int code = comparison.interrupted ? exit_code_of_signal() : 0;
  if (comparison.rank != 0) return code;
  if (flags.json)
    fmt::print("{}\n", compare::to_json(comparison).dump(2));
  else
    print(comparison, flags);
  if (!flags.out.empty() && !comparison.cases.empty() && !comparison.interrupted) report(flags);
  return code;
}

}  // namespace

void add_compare(CLI::App& app, Action& chosen) {
  CLI::App& command = *app.add_subcommand("compare", "train with several algorithms, seeds and sizes, side by side");
  const auto flags = std::make_shared<CompareFlags>();
  add_run_flags(command, flags->run, Sizes::lists);
  command
      .add_option("--algorithms", flags->algorithms,
                  "comma-separated names; all stands for every algorithm; an entry may have its own options, such as "
                  "local_sgd:period=4")
      ->type_name(kAlgorithms)
      ->capture_default_str();
  command.add_option(
      "--search", flags->search,
      "search a hyperparameter: try each value of an option of the task or an algorithm and keep each algorithm's best "
      "on the validation split (on the final quality if the task has none), such as local_sgd.period=2,4,8");
  command.add_option("--lr", flags->learning_rates,
                     "learning rate of the task; several, such as 0.01,0.03,0.1, are searched");
  command.add_option_function<std::string>(
      "--target",
      [flags](const std::string& text) { flags->target = base::parse_real("--target", text, -1e300, 1e300); },
      "report the time to this quality [nine tenths of the way from the untrained model's quality to the median of the "
      "algorithms' final qualities; none if an untrained model is as good]");
  command.add_option("--seeds", flags->seeds, "runs per algorithm, with seeds counted up from --seed")
      ->check(whole(1, 1000))
      ->capture_default_str();
  command
      .add_option("--search-seeds", flags->search_seeds,
                  "this many seeds, the first ones, try every value of a search; the others run only each algorithm's "
                  "best value [all seeds try all values]")
      ->check(whole(1, 1000));
  command
      .add_option("--jobs", flags->jobs,
                  "runs in parallel, each in its own process: for sim, or for threads with pretended compute "
                  "(--compute-ms), since runs that share cores disturb each other's timings")
      ->check(whole(1, kMostChildren))
      ->capture_default_str();
  add_checkpoint_flag(command, flags->run);
  command.footer(
      "With --out, the same command again repeats no finished run; an interrupted run continues from its checkpoint or "
      "starts again.");
  add_short_help(command);
  command.callback([flags, &chosen] { chosen = [flags] { return run_compare(*flags); }; });
}

}  // namespace flockstep::command
