#include "simulation/explore.h"

#include <fmt/format.h>

#include "simulation/history.h"

namespace flockstep::simulation {
namespace {

thread_local std::uint64_t current_seed = 0;

void note_kind(Summary& summary, const Scenario& scenario) {
  for (const std::string_view kind :
       {to_string(scenario.options.sync), to_string(scenario.options.activation), to_string(scenario.merging)}) {
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
  counts += other.counts;
  if (other.failure && (!failure || other.failure->seed < failure->seed)) failure = other.failure;
}

void run_seed(std::uint64_t seed, const Exploration& how, Summary& summary) {
  current_seed = seed;
  const Scenario scenario = draw_scenario(seed);
  World world(scenario, how.make, how.flaw);
  if (how.history) {
    fmt::print(how.history, "{}\n", describe(scenario));
    world.watch(make_history(world.truth(), how.history));
  }
  for (auto& checker : make_checkers(world.truth()))
    if (how.only.empty() || checker->property() == how.only) world.watch(std::move(checker));
  const auto note = [&](std::string_view property, std::string_view sentence) {
    if (!summary.failure)
      summary.failure = Failure{seed, std::string(property), fmt::format("seed {}: {}", seed, sentence)};
  };
  try {
    world.run();
  } catch (const Violation& violation) {
    if (how.only.empty() || violation.property == how.only) note(violation.property, violation.what());
  } catch (const std::exception& error) {
    note(property::kNoThrow, fmt::format("{}, but one says: {}", property::kNoThrow, error.what()));
  }
  ++summary.runs;
  summary.crashes += world.truth().crashed != 0;
  summary.stops += world.truth().stops > 0;
  summary.absences += world.truth().ever_left != 0;
  summary.counts += world.counts();
  note_kind(summary, scenario);
}

std::string to_text(const Summary& summary) {
  const auto kind = [&](std::string_view name) {
    const auto found = summary.kinds.find(name);
    return fmt::format("{} {}", name, found == summary.kinds.end() ? 0 : found->second);
  };
  const Counts& counts = summary.counts;
  return fmt::format(
      "{} runs: {} with a crash, {} with a stop, {} with a worker away; {} returns\n"
      "  sync: {}, {}, {}\n  activation: {}, {}, {}, {}, {}\n  merge: {}, {}\n"
      "  {} rounds run, {} of them in a grid, {} control messages, {} parts, {} events; {:.1f}% of {} merges fresh or "
      "synchronised\n",
      summary.runs, summary.crashes, summary.stops, summary.absences, counts.returns, kind("barrier"), kind("rolling"),
      kind("none"), kind("first"), kind("majority"), kind("quorum"), kind("deadline"), kind("appointed"),
      kind("published"), kind("additive"), counts.rounds, counts.grids, counts.messages, counts.parts, counts.events,
      counts.merges ? 100.0 * static_cast<double>(counts.fresh) / static_cast<double>(counts.merges) : 0.0,
      counts.merges);
}

}  // namespace flockstep::simulation
