#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "command/arguments.h"
#include "command/commands.h"
#include "command/completion.h"
#include "command/help.h"
#include "command/launcher.h"
#include "command/progress.h"
#include "command/signals.h"
#include "command/table.h"

namespace flockstep::command {
namespace {

std::string readable_time(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} us", 1e6 * seconds);
}

void print_summary(const runs::RunRequest& request, const runs::RunOutcome& outcome) {
  const telemetry::Summary& summary = outcome.summary;
  const std::string& platform = outcome.options.platform;
  const std::string& device = outcome.options.device;
  fmt::print("{} on {}, {} on {}{}{}, seed {}\n", outcome.options.algorithm, outcome.options.task,
             base::counted(outcome.workers, "worker"), request.engine,
             device == "cpu" ? "" : fmt::format(" and {}", device),
             platform.empty() ? "" : fmt::format(" ({})", platform), outcome.options.seed);
  Table table({"measure", "value"});
  table.left();
  table.add({"steps", std::to_string(summary.steps)});
  if (summary.has_quality()) {
    table.add({summary.metric, fmt::format("{:.6g}", summary.quality)});
    for (const auto& [name, value] : summary.figures) table.add({name, fmt::format("{:.6g}", value)});
    table.add({"train loss", fmt::format("{:.6g}", summary.train_loss)});
  }
  table.add({"time in steps", fmt::format("{:.3g} s", summary.time_s)});
  if (summary.time_s > 0) table.add({"throughput", fmt::format("{:.5g} samples/s", summary.samples_per_s)});
  if (summary.share_of_ideal)
    table.add({"of ideal", fmt::format("{:.1f}% of the throughput of workers who never wait and are never late",
                                       100 * *summary.share_of_ideal)});
  table.add({"waiting", fmt::format("{:.1f}% of the time", 100 * summary.wait_share)});
  if (const telemetry::StepTimeFigures& steps = summary.step_times; !steps.counts.empty())
    table.add({"step times", fmt::format("median {}, 90th percentile {}, 99th {}, longest {}; waiting left out",
                                         readable_time(steps.median_s), readable_time(steps.p90_s),
                                         readable_time(steps.p99_s), readable_time(steps.longest_s))});
  table.add({"sent", fmt::format("{:.4g} kB per worker and step", summary.bytes_sent_per_step / 1000)});
  if (summary.meetings) {
    const telemetry::MeetingFigures& meetings = *summary.meetings;
    table.add({"fresh",
               fmt::format("{:.1f}% of the merged steps were in their average; {:.1f}% of all steps found no average",
                           100 * meetings.fresh_fraction, 100 * meetings.alone_share)});
    table.add({"staleness", fmt::format("{:.3g} iterations on average; a round takes {:.3g} ms",
                                        meetings.mean_staleness, 1000 * meetings.mean_round_s)});
  }
  if (summary.skipped_steps > 0)
    table.add({"skipped updates", fmt::format("{} (non-finite gradient)", summary.skipped_steps)});
  if (summary.has_quality())
    table.add({"model", fmt::format("{} ({})", summary.model_hash,
                                    summary.replicas_equal ? "the same on every worker" : "differs between workers")});
  const auto& guards = summary.guards;
  if (guards.non_finite + guards.all_zero + guards.unsafe + guards.clipped > 0)
    table.add({"guards",
               fmt::format("{} with non-finite gradients, {} with all zero, {} without safe weights, {} with "
                           "one far above the median",
                           base::counted(guards.non_finite, "step"), guards.all_zero, guards.unsafe, guards.clipped)});
  fmt::print("{}", table.text());
  for (const std::string& note : summary.notes) fmt::print("note: {}\n", note);
  for (const auto& finding : summary.findings) fmt::print("finding: {}\n", finding.sentence);
  if (!outcome.options.out.empty()) fmt::print("written to {}\n", outcome.options.out.string());
}

// It is to go on later, so there is no result yet; JSON says that it was interrupted.
int tell_early_end(const runs::RunRequest& request, const runs::RunOutcome& outcome, bool json) {
  ignore_further_signals();
  if (outcome.rank != 0) return exit_code_of_signal();
  if (json) {
    fmt::print("{}\n", train::describe(outcome.summary, outcome.options, request.engine, outcome.workers).dump(2));
    return exit_code_of_signal();
  }
  const std::string out = outcome.options.out.string();
  fmt::print(stderr, "flockstep: stopped by {} after step {} of {}: {}\n", name_of_signal(), outcome.summary.steps,
             outcome.options.steps,
             out.empty() ? "without --out there is no checkpoint to resume from"
                         : fmt::format("the same command with --resume continues from the checkpoint in {}", out));
  return exit_code_of_signal();
}

int run_train(const RunFlags& flags, const std::string& algorithm) {
  runs::RunRequest request = request_of(flags);
  request.train.algorithm = algorithm;
  request.train.algorithm_settings = settings_of(flags, algorithm);
  request.on_start = learn_peers;
  request.stop_requested = stop_requested;
  stop_requested();  // from here on a signal waits for the next step
  warn_when_bound_to_one_core();
  advise_on_sigterm(flags.checkpoint_every > 0 ? "; --resume continues from the last checkpoint"
                                               : "; with --checkpoint-every and --out, --resume could continue it");

  Progress progress;
  const runs::RunOutcome outcome = runs::run(request, observer_of(progress, algorithm));
  progress.clear();
  if (outcome.summary.interrupted) return tell_early_end(request, outcome, flags.json);
  if (outcome.rank != 0) return 0;
  if (flags.json)
    fmt::print("{}\n", train::describe(outcome.summary, outcome.options, request.engine, outcome.workers).dump(2));
  else
    print_summary(request, outcome);
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  CLI::App& command = *app.add_subcommand("train", "train once with one algorithm");
  const auto flags = std::make_shared<RunFlags>();
  const auto algorithm = std::make_shared<std::string>("mean");
  add_run_flags(command, *flags, Sizes::one);
  command.add_option("--algorithm", *algorithm, "how gradients or models are combined (see `flockstep algorithms`)")
      ->type_name(kAlgorithm)
      ->capture_default_str();
  command.add_option_function<std::string>(
      "--lr", [flags](const std::string& value) { flags->task_options[kLearningRate] = value; },
      "option of the task: learning rate of the local update");
  add_checkpoint_flag(command, *flags);
  command.add_flag("--resume", flags->resume, "continue the run in --out from its last checkpoint");
  add_short_help(command);
  command.callback([flags, algorithm, &command, &chosen] {
    refuse_options_of_others(command, flags->task, *algorithm);
    chosen = [flags, algorithm] { return run_train(*flags, *algorithm); };
  });
}

}  // namespace flockstep::command
