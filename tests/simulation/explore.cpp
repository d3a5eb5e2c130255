#include "simulation/explore.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation/agent_run.h"
#include "simulation/elastic_run.h"
#include "simulation/history.h"
#include "simulation/member_run.h"

namespace flockstep::simulation {
namespace {

thread_local std::uint64_t current_seed = 0;

// What `run` throws is the failure of this seed, if none came before.
template <typename Run>
void note_failure(std::uint64_t seed, const Exploration& how, Summary& summary, Run& run) {
  const auto note = [&](std::string_view property, std::string_view sentence) {
    if (!summary.failure)
      summary.failure = Failure{seed, std::string(property), fmt::format("seed {}: {}", seed, sentence)};
  };
  try {
    run.run();
  } catch (const Violation& violation) {
    if (how.only.empty() || violation.property == how.only) note(violation.property, violation.what());
  } catch (const std::exception& error) {
    note(property::kNoThrow, fmt::format("{}, but one says: {}", property::kNoThrow, error.what()));
  }
}

void run_members(const Scenario& scenario, const Exploration& how, Summary& summary) {
  MemberRun run(scenario, how.flaws.make);
  if (how.history) run.watch(make_history(run.truth(), how.history));
  Checkers checkers;
  add_round_checkers(checkers, run.truth());
  add_part_checkers(checkers, run.truth());
  add_waiting_checkers(checkers, run.truth());
  for (auto& checker : checkers)
    if (how.only.empty() || checker->property() == how.only) run.watch(std::move(checker));
  note_failure(scenario.seed, how, summary, run);
  add(summary.of(Kind::members), run.counts());
}

template <typename Run>
void run_agents(const ElasticScenario& scenario, const Exploration& how, Kind kind, Summary& summary) {
  Run run(scenario, how.flaws, how.history);
  note_failure(scenario.base.seed, how, summary, run);
  add(summary.of(kind), run.counts());
}

void note_scenario(const Scenario& scenario, Counts& counts) {
  for (const std::string_view what :
       {to_string(scenario.options.sync), to_string(scenario.options.activation), to_string(scenario.options.groups),
        to_string(scenario.merging), std::string_view(scenario.overlap ? "overlap" : "in turn"),
        std::string_view(scenario.on_device ? "on a device" : "in main memory"),
        std::string_view(scenario.guarded ? "guarded" : "as they are")})
    ++counts[what];
}

std::string text_of(const Counts& counts) {
  std::string text;
  for (const auto& [what, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  return text;
}

}  // namespace

std::uint64_t seed_under_way() { return current_seed; }

std::string Failure::report() const {
  return fmt::format("{}\nreplay: build/release/bin/explorer --seed {} --verbose", sentence, seed);
}

void Summary::add(const Summary& other) {
  runs += other.runs;
  simulation::add(scenarios, other.scenarios);
  for (std::size_t kind = 0; kind < counts.size(); ++kind) simulation::add(counts[kind], other.counts[kind]);
  if (other.failure && (!failure || other.failure->seed < failure->seed)) failure = other.failure;
}

std::string Summary::text() const {
  std::string text = fmt::format("{} runs: {}\n", runs, text_of(scenarios));
  for (std::size_t kind = 0; kind < counts.size(); ++kind)
    text += fmt::format("  {}: {}\n", kKinds[kind], text_of(counts[kind]));
  return text;
}

void run_seed(std::uint64_t seed, const Exploration& how, Summary& summary) {
  current_seed = seed;
  const Scenario scenario = draw_scenario(seed);
  const auto begins = [&](Kind kind, const auto& its) {
    if (how.kind.value_or(kind) != kind) return false;
    if (how.history) fmt::print(how.history, "{}: {}\n", kKinds[static_cast<std::size_t>(kind)], describe(its));
    return true;
  };
  if (begins(Kind::members, scenario)) run_members(scenario, how, summary);
  if (begins(Kind::agents, scenario)) run_agents<AgentRun>(steady(scenario), how, Kind::agents, summary);
  if (how.kind.value_or(Kind::elastic) == Kind::elastic) {
    const ElasticScenario elastic = draw_elastic(seed);
    begins(Kind::elastic, elastic);
    run_agents<ElasticRun>(elastic, how, Kind::elastic, summary);
  }
  ++summary.runs;
  note_scenario(scenario, summary.scenarios);
}

}  // namespace flockstep::simulation
