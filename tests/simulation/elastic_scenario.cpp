#include "simulation/elastic_scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "simulation/draws.h"

namespace flockstep::simulation {
namespace {

using protocol::Options;
using protocol::Sync;

constexpr int kMostElasticRanks = 9;
constexpr std::uint32_t kStream = 11, kLinkStream = 12;

void draw_sizes(Draws& draws, ElasticScenario& scenario) {
  Options& options = scenario.base.options;
  options.elastic = true;
  options.workers = draws.in_percent(85) ? draws.between(2, 5) : draws.between(6, kMostElasticRanks - 2);
  options.group_size = draws.between(2, options.workers);
  if (options.sync == Sync::none && draws.in_percent(80)) options.group_size = options.workers;
  options.quorum = draws.between(1, options.workers);
  options.period = draws.between(1, 5);
  options.patience = base::Duration(draws.power_of_ten(-1, 2));
  options.chunks = draws.in_percent(70) ? 1 : draws.between(2, 3);
  if (draws.in_percent(50)) options.direct = draws.between(1, 4);
  scenario.ranks = options.workers + (draws.in_percent(20) ? draws.between(1, 2) : 0);
  scenario.base.iterations = draws.between(2, 10);
  scenario.base.step_seconds.resize(static_cast<std::size_t>(scenario.ranks), 1.0);
  scenario.base.hiccup = std::min(scenario.base.hiccup, 20.0);
  for (double& seconds : scenario.base.step_seconds) seconds = std::min(seconds, 20.0);
  scenario.start_after.resize(static_cast<std::size_t>(scenario.ranks));
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    double& start = scenario.start_after[static_cast<std::size_t>(rank)];
    if (draws.in_percent(50)) start = draws.power_of_ten(-3, 1);
    if (rank >= options.workers) start = draws.power_of_ten(-1, 1.5);
  }
}

ElasticCrash draw_crash(Draws& draws, int ranks, int calls_of_a_run) {
  using When = ElasticCrash::When;
  ElasticCrash crash;
  crash.rank = draws.between(0, ranks - 1);
  crash.when =
      draws.one_of(std::array{When::calls, When::calls, When::calls, When::time, When::gives, When::synchronises});
  crash.life = draws.in_percent(75) ? 0 : draws.between(1, 2);
  const bool is_early = crash.life > 0 || draws.in_percent(30);  // while it joins, or all begin
  crash.calls = draws.between(0, is_early ? 30 : calls_of_a_run);
  if (crash.when == When::gives || crash.when == When::synchronises) crash.calls = draws.between(0, 12);
  crash.seconds = draws.power_of_ten(-3, 1.5);
  crash.starts_after = draws.in_percent(75) ? draws.power_of_ten(-3, 1.5) : -1;
  return crash;
}

void draw_breaks(Draws& draws, ElasticScenario& scenario, int calls_of_all) {
  const auto moment = [&] { return draws.in_percent(25) ? draws.between(0, 20) : draws.between(0, calls_of_all); };
  if (draws.in_percent(35))
    for (int left = draws.between(1, 2); left > 0; --left) {
      Break partition{.kind = Break::Kind::partition, .calls = moment(), .heals_after = draws.power_of_ten(-2, 2)};
      for (int rank = 0; rank < scenario.ranks; ++rank) partition.half.push_back(draws.in_percent(50));
      partition.half[0] = !partition.half[static_cast<std::size_t>(scenario.ranks - 1)];
      scenario.breaks.push_back(partition);
    }
  if (draws.in_percent(35))
    for (int left = draws.between(1, 3); left > 0; --left) {
      const int one = draws.between(0, scenario.ranks - 1),
                other = (one + draws.between(1, scenario.ranks - 1)) % scenario.ranks;
      scenario.breaks.push_back(
          {.calls = moment(), .one = one, .other = other, .heals_after = draws.power_of_ten(-3, 1.5)});
    }
}

// Nothing else goes wrong then. From a stream of its own, which changes no other draw.
void draw_link(std::uint64_t seed, ElasticScenario& scenario, int calls_of_all) {
  Draws draws(seed, kLinkStream);
  if (!scenario.crashes.empty() || !scenario.breaks.empty() || !scenario.base.faults.empty()) return;
  if (!draws.in_percent(60)) return;
  const int one = draws.between(0, scenario.ranks - 1);
  scenario.breaks.push_back({.kind = Break::Kind::link,
                             .calls = draws.in_percent(20) ? draws.between(0, 20) : draws.between(0, calls_of_all),
                             .one = one,
                             .other = (one + draws.between(1, scenario.ranks - 1)) % scenario.ranks,
                             .heals_after = draws.power_of_ten(4, 6)});
}

}  // namespace

ElasticScenario draw_elastic(std::uint64_t seed) {
  Draws draws(seed, kStream);
  ElasticScenario scenario;
  Scenario& base = scenario.base;
  base = draw_scenario(seed);
  draw_sizes(draws, scenario);
  base.absences.clear();
  scenario.counts_models = draws.in_percent(65);
  base.on_device = base.on_device && !scenario.counts_models;
  if (scenario.counts_models) {
    base.parameters = static_cast<std::size_t>(scenario.ranks * draws.between(1, 3) + draws.between(0, 3));
    base.statistics = draws.in_percent(50) ? 0 : static_cast<std::size_t>(draws.between(1, 5));
  }
  scenario.connect = draws.delays(-3, 1);
  scenario.close = draws.delays(-3, 1.5);
  scenario.stale_book = draws.in_percent(30);
  const int calls = static_cast<int>(base.iterations) * (8 + 6 * base.options.chunks * (base.options.group_size - 1));
  std::erase_if(base.faults, [](const Fault& fault) { return fault.kind == Fault::Kind::crash; });
  for (Fault& fault : base.faults) {
    fault.rank %= scenario.ranks;
    fault.after = draws.between(0, calls);
  }
  if (draws.in_percent(75))
    for (int left = draws.in_percent(60) ? 1 : draws.between(2, 4); left > 0; --left)
      scenario.crashes.push_back(draw_crash(draws, scenario.ranks, calls));
  draw_breaks(draws, scenario, calls * base.options.workers);
  draw_groups(draws, base.options, false);
  draw_link(seed, scenario, calls * base.options.workers);
  return scenario;
}

std::string describe(const ElasticScenario& scenario) {
  static constexpr std::string_view kWhen[] = {"calls", "seconds", "calls after giving", "calls after synchronising"};
  std::string text = fmt::format("{}; {}; patience {:.3g} s; the ranks start after {:.3g} s", describe(scenario.base),
                                 scenario.counts_models ? "models that count" : "real models",
                                 scenario.base.options.patience.count(), fmt::join(scenario.start_after, ", "));
  for (const ElasticCrash& crash : scenario.crashes)
    text += fmt::format("; process {} of worker {} crashes after {:.3g} {}, and starts again after {:.3g} s",
                        crash.life, crash.rank,
                        crash.when == ElasticCrash::When::time ? crash.seconds : static_cast<double>(crash.calls),
                        kWhen[static_cast<std::size_t>(crash.when)], crash.starts_after);
  for (const Break& its : scenario.breaks) text += fmt::format("; {} after {} calls", describe(its), its.calls);
  return text;
}

std::string describe(const Break& its) {
  static constexpr std::string_view kKinds[] = {"suspicion", "partition", "link"};
  return fmt::format("{} of {} and {}, or of halves {}, for {:.3g} s", kKinds[static_cast<std::size_t>(its.kind)],
                     its.one, its.other, std::vector<int>(its.half.begin(), its.half.end()), its.heals_after);
}

}  // namespace flockstep::simulation
