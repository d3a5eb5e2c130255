#include <fmt/format.h>

#include <memory>

#include "base/split.h"
#include "command/arguments.h"
#include "command/commands.h"
#include "command/completion.h"
#include "command/signals.h"
#include "flockstep/error.h"
#include "supervisor/supervisor.h"

namespace flockstep::command {
namespace {

void refuse_extras(const CLI::App& command) {
  const auto extras = command.remaining();
  if (extras.empty()) return;
  throw Error(ErrorCode::bad_input,
              extras[0].starts_with("-")
                  ? unknown_flag_sentence(command, extras[0].substr(0, extras[0].find('=')))
                  : fmt::format("launch needs -- before the command of a worker: write `-- {} ...`", extras[0]));
}

}  // namespace

void add_launch(CLI::App& app, Action& chosen, const std::vector<std::string>& words) {
  CLI::App& command = *app.add_subcommand("launch", "start workers of any program, and restart those that are lost");
  const auto options = std::make_shared<supervisor::Options>();
  options->command = words;
  command.add_option("--workers", options->workers, "number of workers to start")->check(whole(1, 4096));
  command.add_option_function<std::string>(
      "--hosts", [options](const std::string& text) { options->hosts = base::split(text, ','); },
      "start them on these hosts, such as a,b, in blocks, through ssh [this host]");
  command.add_option("--restarts", options->restarts, "how many times each worker is restarted when it fails")
      ->check(whole(0, 1 << 30))
      ->capture_default_str();
  command.add_option("--heartbeat", options->heartbeat, "a worker that is silent for this long counts as lost")
      ->capture_default_str();
  command.add_option("--join", options->join, "add the workers to a run in progress, whose store is at host:port");
  command
      .add_option("--secret-file", options->secret_file,
                  "file with the run's secret, which only you may read; made if it does not exist, except with "
                  "--join [a new one, removed at the end]")
      ->type_name(kFile);
  command.add_option("--address", options->address,
                     "address of this host for other hosts [with --hosts its name, else 127.0.0.1]");
  command.add_option("--port", options->port, "of the run's store [any that is free]")->check(whole(0, 1 << 30));
  command.add_option("--ssh", options->ssh, "program that reaches other hosts, called as `ssh HOST sh -s`")
      ->capture_default_str();
  command.add_flag("--prefix", options->prefix, "prefix each line of a worker with its rank, as on a terminal");
  command.footer(
      "The command of a worker comes last, after --: flockstep launch --workers 4 -- python train.py\n"
      "Each worker finds its place in its environment: FLOCKSTEP_RANK, FLOCKSTEP_WORKERS and others "
      "(docs/elastic.md).\n"
      "A worker that fails is restarted alone, after a delay that grows. Ctrl-C ends all workers.");
  command.allow_extras();  // to tell a misspelt flag from a command without -- before it
  command.callback([options, &command, &chosen] {
    refuse_extras(command);
    chosen = [options] {
      supervisor::check(*options);
      return supervisor::supervise(*options, signals_as_bytes());
    };
  });
}

}  // namespace flockstep::command
