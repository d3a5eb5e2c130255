// Ctrl-C and SIGTERM, for the command only; the library installs no handlers.
//
// Ctrl-C asks a run to end at its next evaluation, keeping what was measured; a second one ends the process at once.
// SIGTERM is what a launcher sends to the survivors of a lost worker: one sentence, from the lowest living rank, then
// out.
#pragma once

#include <sys/types.h>

#include "runtime/context.h"

namespace flockstep::cli {

void install_signal_handlers();

bool interrupted();

// Until it is called with 0: Ctrl-C is passed on to this child, which is not in the terminal's foreground, and SIGTERM
// ends it first.
void pass_signals_to(pid_t child);

// From here on SIGTERM ends the process without a word: the reason has been given.
void end_silently_on_sigterm();

// Collective: learns the processes of lower ranks on this host, so that on SIGTERM only the lowest living one speaks.
void learn_peers(runtime::Context& context);

}  // namespace flockstep::cli
