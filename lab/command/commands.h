// The subcommands. Each adds itself to the command line and sets what to do when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace flockstep::command {

using Action = std::function<int()>;  // returns the exit code

void add_train(CLI::App& app, Action& chosen);
void add_compare(CLI::App& app, Action& chosen);
void add_report(CLI::App& app, Action& chosen);
void add_study(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_calibrate(CLI::App& app, Action& chosen);
// `words` are what the call has after --.
void add_launch(CLI::App& app, Action& chosen, const std::vector<std::string>& words);
void add_listings(CLI::App& app, Action& chosen);  // algorithms, tasks, engines, platforms
void add_completion(CLI::App& app, Action& chosen);

}  // namespace flockstep::command
