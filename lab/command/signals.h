// Ctrl-C and SIGTERM, for the command only; the library installs no handlers.
//
// Ctrl-C asks a run to end at its next evaluation, keeping what was measured; a second one ends the process at once.
// SIGTERM is what a launcher sends to the survivors of a lost worker: one sentence, from the lowest living rank, then
// out. A run that can end early and go on later does so first, on SIGTERM and SIGUSR1.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>

#include "runtime/context.h"

namespace flockstep::command {

void install_signal_handlers();

bool interrupted();

// From here on SIGTERM and SIGUSR1 ask a run to end early (`end_requested`, which the run asks from its first step on).
// SIGTERM ends the process at once where no step was taken yet, when it comes twice, and under a launcher, which kills
// after a second, shortly before that.
void end_early_on_signals();
bool end_requested();
// The run has ended early: nothing is to keep this process from saying so.
void ignore_further_signals();
constexpr int kEndedEarly = 128 + SIGTERM;  // its exit code, whichever of the two it was

// From here on Ctrl-C, SIGTERM and, unless it is ignored as under nohup, SIGHUP do nothing but write their numbers, as
// one byte each, to a pipe. Returns the reading end.
int signals_as_bytes();

// Until it is taken back: Ctrl-C is passed on to this child, which is not in the terminal's foreground, and SIGTERM
// ends it first.
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
// function, is gone when we are, even if we are killed: nobody else writes to a folder that the next call takes up.
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
