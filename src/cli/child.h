// Other processes: a run in one of its own (this same command with `train --json`), and programs that we need.
#pragma once

#include "tasks/run.h"

namespace flockstep::cli {

struct Finished {
  int code;            // its exit code; 128 and the signal's number if one ended it
  std::string output;  // what it wrote to standard output; standard error stays ours
};

// Runs `program`, looked for on the PATH if its name has no slash, and waits for it. `variables` ("NAME=VALUE") come on
// top of our environment. Throws Error{unavailable} if it cannot be started.
Finished run_program(const std::string& program, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& variables = {});

// Waits for it, and throws Error with its sentence if it failed.
tasks::RunOutcome run_in_child(const tasks::RunRequest& request);

}  // namespace flockstep::cli
