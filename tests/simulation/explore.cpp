#include "simulation/explore.h"

#include <fmt/format.h>

#include <functional>

#include "simulation/history.h"

namespace flockstep::simulation {
namespace {

thread_local std::uint64_t current_seed = 0;

void note_kind(Summary& summary, const Scenario& scenario) {
  for (const std::string_view kind :
       {to_string(scenario.options.sync), to_string(scenario.options.activation), to_string(scenario.options.groups),
        to_string(scenario.merging), std::string_view(scenario.overlap ? "overlap" : "in turn"),
        std::string_view(scenario.on_device ? "on a device" : "in main memory"),
        std::string_view(scenario.guarded ? "guarded" : "as they are")}) {
    const auto found = summary.kinds.find(kind);
    ++(found == summary.kinds.end() ? summary.kinds[std::string(kind)] : found->second);
  }
}

}  // namespace

std::uint64_t seed_under_way() { return current_seed; }

std::string Failure::report() const {
  return fmt::format("{}\nreplay: build/release/bin/explorer --seed {} --verbose", sentence, seed);
}

void Summary::add(const Summary& other) {
  runs += other.runs;
  crashes += other.crashes;
  stops += other.stops;
  absences += other.absences;
  for (const auto& [kind, count] : other.kinds) kinds[kind] += count;
  members += other.members;
  agents += other.agents;
  elastic += other.elastic;
  if (other.failure && (!failure || other.failure->seed < failure->seed)) failure = other.failure;
}

namespace {

// What `run` throws is the failure of this seed, if none came before.
void note_failure(const Scenario& scenario, const Exploration& how, Summary& summary,
                  const std::function<void()>& run) {
  const auto note = [&](std::string_view property, std::string_view sentence) {
    if (!summary.failure)
      summary.failure =
          Failure{scenario.seed, std::string(property), fmt::format("seed {}: {}", scenario.seed, sentence)};
  };
  try {
    run();
  } catch (const Violation& violation) {
    if (how.only.empty() || violation.property == how.only) note(violation.property, violation.what());
  } catch (const std::exception& error) {
    note(property::kNoThrow, fmt::format("{}, but one says: {}", property::kNoThrow, error.what()));
  }
}

void run_members(const Scenario& scenario, const Exploration& how, Summary& summary) {
  MemberRun run(scenario, how.make, how.flaw);
  if (how.history) run.watch(make_history(run.truth(), how.history));
  for (auto& checker : make_checkers(run.truth()))
    if (how.only.empty() || checker->property() == how.only) run.watch(std::move(checker));
  note_failure(scenario, how, summary, [&] { run.run(); });
  summary.crashes += run.truth().crashed != 0;
  summary.stops += run.truth().stops > 0;
  summary.absences += run.truth().ever_left != 0;
  summary.members += run.counts();
}

void run_agents(const Scenario& scenario, const Exploration& how, Summary& summary) {
  AgentRun run(scenario, how.agent_flaw, how.history);
  note_failure(scenario, how, summary, [&] { run.run(); });
  summary.agents += run.counts();
}

void run_elastic(const ElasticScenario& scenario, const Exploration& how, Summary& summary) {
  ElasticRun run(scenario, how.elastic_flaw, how.elastic_rounds, how.history);
  note_failure(scenario.base, how, summary, [&] { run.run(); });
  summary.elastic += run.counts();
}

}  // namespace

void run_seed(std::uint64_t seed, const Exploration& how, Summary& summary) {
  current_seed = seed;
  const Scenario scenario = draw_scenario(seed);
  if (how.history) fmt::print(how.history, "{}\n", describe(scenario));
  if (how.runs_members) run_members(scenario, how, summary);
  if (how.history && how.runs_agents) fmt::print(how.history, "the same with real agents, without crashes:\n");
  if (how.runs_agents) run_agents(scenario, how, summary);
  if (how.runs_elastic) {
    const ElasticScenario elastic = draw_elastic(seed);
    if (how.history) fmt::print(how.history, "workers that come and go:\n{}\n", describe(elastic));
    run_elastic(elastic, how, summary);
  }
  ++summary.runs;
  note_kind(summary, scenario);
}

std::string to_text(const Summary& summary) {
  const auto kind = [&](std::string_view name) {
    const auto found = summary.kinds.find(name);
    return fmt::format("{} {}", name, found == summary.kinds.end() ? 0 : found->second);
  };
  const auto met = [](const Counts& counts) {
    return fmt::format(
        "{} rounds run, {} control messages, {} parts, {} events; {:.1f}% of {} merges fresh or synchronised",
        counts.rounds, counts.messages, counts.parts, counts.events,
        counts.merges ? 100.0 * static_cast<double>(counts.fresh) / static_cast<double>(counts.merges) : 0.0,
        counts.merges);
  };
  return fmt::format(
             "{} runs: {} with a crash, {} with a stop, {} with a worker away; {} returns\n"
             "  sync: {}, {}, {}\n  activation: {}, {}, {}, {}, {}\n  groups: {}, {}, {}\n  merge: {}, {}\n"
             "  updates: {}, {}\n  members: {}, {} in a grid\n  agents: {}; {} updates cut, {} not finite\n",
             summary.runs, summary.crashes, summary.stops, summary.absences, summary.members.returns, kind("barrier"),
             kind("rolling"), kind("none"), kind("first"), kind("majority"), kind("quorum"), kind("deadline"),
             kind("appointed"), kind("dynamic"), kind("fixed"), kind("nodes"), kind("published"), kind("additive"),
             kind("guarded"), kind("as they are"), met(summary.members), summary.members.grids, met(summary.agents),
             summary.agents.cut, summary.agents.not_finite) +
         fmt::format(
             "  elastic: {} runs, {} with a crash, {} of them with one who comes back, {} with a partition, {} with a "
             "false suspicion, {} with a link down, {} with a stop, {} with growth; {} joins, {} expelled, {} "
             "transfers withdrawn; the last one needed {:.3f} of the time allowed\n  elastic: {}\n",
             summary.elastic.runs, summary.elastic.crashes, summary.elastic.restarts, summary.elastic.partitions,
             summary.elastic.suspicions, summary.elastic.links, summary.elastic.stops, summary.elastic.growths,
             summary.elastic.joins, summary.elastic.expulsions, summary.elastic.withdrawn, summary.elastic.longest,
             met(summary.elastic.counts));
}

}  // namespace flockstep::simulation
