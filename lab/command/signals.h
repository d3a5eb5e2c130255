// Ctrl-C, SIGTERM and SIGUSR1, for the command only; the library installs no handlers.
//
// One rule for all subcommands. A command that can keep what it has asks stop_requested() between two steps: it stops
// there, marks what is partial, and exits with exit_code_of_signal(). The process ends at once, with one sentence,
// where no command asks (yet), and when Ctrl-C or SIGTERM comes again. SIGTERM is also what a launcher sends to the
// survivors of a lost worker: the sentence comes from the lowest living rank, and the process waits no longer than the
// launcher does.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "runtime/context.h"

namespace flockstep::command {

void install_signal_handlers();

bool stop_requested();
// 130 after Ctrl-C; 143 after SIGTERM and SIGUSR1, and where another process of the run was asked.
int exit_code_of_signal();
// "Ctrl-C", or "a signal" in the second case.
std::string_view name_of_signal();
// The command has stopped: nothing is to keep this process from saying so.
void ignore_further_signals();

// From here on Ctrl-C, SIGTERM and, unless it is ignored as under nohup, SIGHUP do nothing but write their numbers, as
// one byte each, to a pipe. Returns the reading end.
int signals_as_bytes();

// Until it is taken back: signals are passed on to this child, which is not in the terminal's foreground. It is killed
// when this process ends at once.
constexpr std::size_t kMostChildren = 256;
void pass_signals_to(pid_t child);
void pass_no_signals_to(pid_t child);

// Keeps Ctrl-C, SIGTERM and SIGUSR1 waiting while it lives.
struct HeldSignals {
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  sigset_t before;
};

// A child that this command starts of itself with the variable ("NAME=VALUE") in its environment, and that calls the
// function, ends with this process, even if this process is killed: so it does not write to a folder that the next call
// takes up. The child reports no signals; this process does.
std::string end_with_us_variable();
void end_with_parent_if_asked();

// What the sentence on SIGTERM says at its end, such as "; the same command again continues from there". A literal: it
// has to live as long as the process.
void advise_on_sigterm(const char* advice);

// From here on SIGTERM ends the process without a word: the reason has been given.
void end_silently_on_sigterm();

// Collective: learns the processes of lower ranks on this host, so that on SIGTERM only the lowest living one speaks.
void learn_peers(runtime::Context& context);

}  // namespace flockstep::command
