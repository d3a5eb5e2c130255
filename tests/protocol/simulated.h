// Runs of members without engines or numbers, under the checkers of the schedule explorer.
#pragma once

#include "simulation/member_run.h"

namespace flockstep::protocol {

// Every iteration takes a second, and every message as long or less.
inline simulation::Scenario scenario_of(const Options& options, Iteration iterations) {
  simulation::Scenario scenario;
  scenario.seed = static_cast<std::uint64_t>(options.workers);
  scenario.options = options;
  scenario.iterations = iterations;
  scenario.step_seconds.resize(static_cast<std::size_t>(options.workers), 1.0);
  scenario.control = scenario.parts = scenario.sent = {1, 1};
  return scenario;
}

// A Watcher is a checker of the test's own, made of the truth. Throws a Violation where a checker finds one.
template <typename Watcher, typename... Arguments>
void run_watched_by(const simulation::Scenario& scenario, Arguments&... arguments) {
  simulation::MemberRun run(scenario, simulation::make_honest);
  simulation::Checkers checkers;
  simulation::add_round_checkers(checkers, run.truth());
  simulation::add_part_checkers(checkers, run.truth());
  checkers.push_back(std::make_unique<Watcher>(run.truth(), arguments...));
  for (auto& checker : checkers) run.watch(std::move(checker));
  run.run();
}

}  // namespace flockstep::protocol
