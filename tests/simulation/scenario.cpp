#include "simulation/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "math/groups.h"
#include "simulation/draws.h"

namespace flockstep::simulation {
namespace {

using protocol::Activation;
using protocol::Grouping;
using protocol::Options;
using protocol::Sync;

Options draw_options(Draws& draws) {
  Options options;
  options.workers = draws.in_percent(75) ? draws.between(2, 7) : draws.between(8, 12);
  if (draws.in_percent(2)) options.workers = draws.between(13, kMaxWorkers);
  options.group_size = draws.between(2, options.workers);
  options.sync = draws.in_percent(45) ? Sync::barrier : draws.in_percent(80) ? Sync::rolling : Sync::none;
  if (options.sync == Sync::none && draws.in_percent(80)) options.group_size = options.workers;
  options.period = draws.in_percent(90) ? draws.between(1, 6) : draws.between(7, 12);
  options.activation = draws.one_of(std::array{Activation::first, Activation::majority, Activation::quorum,
                                               Activation::deadline, Activation::appointed});
  options.quorum = draws.between(1, options.workers);
  if (draws.in_percent(50)) options.deadline = base::Duration(draws.power_of_ten(-2, 1));
  options.seed = static_cast<std::uint64_t>(draws.between(0, 1 << 20));
  if (draws.in_percent(15)) options.first = draws.between(1, 1000);
  if (draws.in_percent(3)) options.first += std::int64_t{1} << 40;
  options.chunks = draws.in_percent(60) ? 1 : draws.between(2, kMaxChunks);
  options.window = draws.between(1, 3);
  if (draws.in_percent(60)) options.direct = draws.between(1, 6);
  return options;
}

// How many messages that carry parts one worker receives in a period, on average.
double parts_of_a_period(const Options& options) {
  const double whole = options.sync == Sync::none ? 0 : 1;
  const double groups = std::max(1, math::GroupSchedule(options.workers, options.group_size).groups());
  const auto period = static_cast<double>(options.period);
  const auto neighbours = [&](double members) {
    return members <= options.direct ? members - 1 : 2 * (std::sqrt(members) - 1);
  };
  return 2.0 * options.chunks *
         (whole * neighbours(options.workers) + (period - whole) * neighbours(options.workers / groups));
}

void draw_pace(Draws& draws, Scenario& scenario) {
  scenario.step_seconds.resize(static_cast<std::size_t>(scenario.options.workers), 1.0);
  const int share = draws.one_of(std::array{0, 0, 10, 50});  // of slow workers
  const double times = draws.power_of_ten(1, 2);
  for (double& seconds : scenario.step_seconds)
    if (draws.in_percent(share)) seconds = times;
  scenario.spread = draws.one_of(std::array{0.0, 1e-4, 0.1, 0.9});
  if (draws.in_percent(30)) {
    scenario.hiccups = draws.between(0.0, 0.7);
    scenario.hiccup = draws.power_of_ten(1, 2);
  }
}

void draw_network(Draws& draws, Scenario& scenario) {
  scenario.parts_wait = draws.in_percent(60);
  if (scenario.parts_wait) scenario.rendezvous = draws.one_of(std::array{0.0, 0.5, 1.0});
  scenario.read_late = draws.one_of(std::array{0.0, 0.5, 1.0});
  scenario.as_bytes = draws.in_percent(20);
  scenario.control = draws.delays(-4, 1);
  scenario.parts = draws.delays(-4, 1);
  scenario.sent = draws.delays(-4, 1);
  scenario.timers = draws.delays(-4, 0);
  scenario.loss = draws.delays(-3, 2);
}

void draw_faults(Draws& draws, Scenario& scenario, double actions) {
  const int workers = scenario.options.workers;
  const auto moment = [&] { return static_cast<std::int64_t>(draws.between(0.0, actions)); };
  if (draws.in_percent(22))
    for (int left = draws.between(1, 3); left > 0; --left)
      scenario.faults.push_back(
          {Fault::Kind::stop, draws.between(0, workers - 1), moment(), draws.power_of_ten(-2, 2)});
  if (draws.in_percent(30)) {
    std::vector<int> ranks(static_cast<std::size_t>(workers));
    for (int rank = 0; rank < workers; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
    for (int i = workers - 1; i > 0; --i)
      std::swap(ranks[static_cast<std::size_t>(i)], ranks[static_cast<std::size_t>(draws.between(0, i))]);
    const int most = draws.in_percent(70) ? 1 : draws.in_percent(70) ? std::min(2, workers - 1) : workers - 1;
    for (int i = 0; i < most; ++i)
      scenario.faults.push_back({Fault::Kind::crash, ranks[static_cast<std::size_t>(i)], moment(), 0});
  }
}

void draw_absences(Draws& draws, Scenario& scenario) {
  if (!draws.in_percent(40)) return;
  const int workers = scenario.options.workers;
  const bool is_one_after_the_other = draws.in_percent(30);  // all of them, as where data ends here and there
  const int count = is_one_after_the_other ? workers : draws.between(1, 4);
  for (int i = 0; i < count; ++i)
    scenario.absences.push_back(
        {.rank = is_one_after_the_other ? i : draws.between(0, workers - 1),
         .after = scenario.options.first + draws.between(0, static_cast<int>(scenario.iterations) - 1),
         .seconds = draws.power_of_ten(-4, 2),
         .is_for_good = draws.in_percent(30)});
}

void draw_models(Draws& draws, Scenario& scenario) {
  scenario.parameters = static_cast<std::size_t>(draws.in_percent(90) ? draws.between(1, 40) : draws.between(41, 200));
  scenario.statistics = static_cast<std::size_t>(draws.in_percent(50) ? 0 : draws.between(1, 5));
  if (draws.in_percent(50)) scenario.reactions = draws.delays(-5, 0);
  if (scenario.merging != Merging::additive) return;
  scenario.overlap = draws.in_percent(50);
  scenario.on_device = draws.in_percent(30);
  scenario.device = draws.delays(-4, -1.5);  // it is looked at every millisecond
}

void draw_nodes(Draws& draws, Options& options, bool knows_all) {
  options.groups = Grouping::nodes;
  options.across = draws.between(2, 5);
  options.group_size = draws.between(1, options.workers);
  options.nodes.clear();
  if (knows_all && draws.in_percent(40))
    for (int left = draws.between(1, 4); left > 0; --left) options.nodes.push_back(draws.between(1, 4));
}

}  // namespace

void draw_groups(Draws& draws, Options& options, bool knows_all) {
  options.groups = Grouping::dynamic;
  options.nodes.clear();
  if (draws.in_percent(50)) return;
  if (draws.in_percent(30))
    options.groups = Grouping::fixed;
  else
    draw_nodes(draws, options, knows_all);
}

// Of few workers one is wrong all the time, and some are at times.
void draw_guard(Draws& draws, Scenario& scenario) {
  using math::UpdateWeights;
  scenario.guarded = draws.in_percent(40);
  scenario.weights = draws.one_of(std::array{UpdateWeights::mean, UpdateWeights::mean,
                                             UpdateWeights::direction_consensus, UpdateWeights::geometric_median});
  scenario.wrong = draws.one_of(std::array{0.0, 0.05, 0.3});
  if (draws.in_percent(60)) scenario.wrong_worker = draws.between(0, scenario.options.workers - 1);
  scenario.drift = draws.one_of(std::array{0.0, 0.5, 2.0});
}

double Delays::draw(base::Random& random) const {
  const double place = random.uniform();
  // One draw is enough: the first decimal decides, the others are as random as before.
  if (place < 0.1) return place * 10 * longest;
  return (place - 0.1) / 0.9 * usual;
}

// Runs are kept short: many short ones meet more interleavings than few long ones.
Scenario draw_scenario(std::uint64_t seed) {
  Draws draws(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.options = draw_options(draws);
  scenario.merging = draws.in_percent(50) ? Merging::published : Merging::additive;
  Options& options = scenario.options;
  const double budget = draws.in_percent(90) ? 400 : 3000;
  const auto parts = [&] { return parts_of_a_period(options) * options.workers; };
  while (options.chunks > 1 && parts() > budget) --options.chunks;
  const int periods = std::clamp(static_cast<int>(budget / parts()), 1, 4);
  scenario.iterations = options.period * draws.between(1, periods) + draws.between(0, 2);
  draw_pace(draws, scenario);
  draw_network(draws, scenario);
  const double per_iteration = 3 * parts_of_a_period(options) / static_cast<double>(options.period) + 6;
  draw_faults(draws, scenario, per_iteration * static_cast<double>(scenario.iterations));
  draw_absences(draws, scenario);
  draw_models(draws, scenario);
  // Last, as there was neither when seeds were chosen that tests name.
  draw_groups(draws, options, true);
  draw_guard(draws, scenario);
  return scenario;
}

std::string_view to_string(Sync sync) {
  static constexpr std::string_view kNames[] = {"barrier", "rolling", "none"};
  return kNames[static_cast<std::size_t>(sync)];
}

std::string_view to_string(Activation activation) {
  static constexpr std::string_view kNames[] = {"first", "majority", "quorum", "deadline", "appointed"};
  return kNames[static_cast<std::size_t>(activation)];
}

std::string_view to_string(Grouping groups) {
  static constexpr std::string_view kNames[] = {"dynamic", "fixed", "nodes"};
  return kNames[static_cast<std::size_t>(groups)];
}

std::string_view to_string(Merging merging) { return merging == Merging::published ? "published" : "additive"; }

std::string describe(const Scenario& its) {
  const Options& options = its.options;
  std::string text = fmt::format(
      "seed {}: {} workers, {} groups of {}, nodes of {{{}}} and across them every {}; {} with period {}, activation "
      "{}, "
      "quorum {}, deadline {:.3g} s; {} merge, iterations {} to {}, {} chunks, window {}, grids above {} members; "
      "models "
      "of {} + {} numbers{}{}; ",
      its.seed, options.workers, to_string(options.groups), options.group_size, fmt::join(options.nodes, ","),
      options.across, to_string(options.sync), options.period, to_string(options.activation), options.quorum,
      options.deadline.count(), to_string(its.merging), options.first, its.last(), options.chunks, options.window,
      options.direct, its.parameters, its.statistics, its.overlap ? ", overlap with steps" : "",
      its.on_device ? ", on devices" : "");
  text += fmt::format(
      "parts {}, {:.0f}% by rendezvous, {:.0f}% read late; longest delays: control {:.3g} s, parts {:.3g} s, sent "
      "{:.3g} "
      "s, timers {:.3g} s, loss {:.3g} s, reactions {:.3g} s, device {:.3g} s",
      its.parts_wait ? "wait to be expected" : "come at any time", 100 * its.rendezvous, 100 * its.read_late,
      its.control.longest, its.parts.longest, its.sent.longest, its.timers.longest, its.loss.longest,
      its.reactions.longest, its.device.longest);
  if (its.guarded)
    text += fmt::format("; updates are guarded, {:.0f}% of them are wrong, and most of worker {}", 100 * its.wrong,
                        its.wrong_worker);
  for (const Fault& fault : its.faults)
    text += fmt::format("; worker {} {} for {:.3g} s after {} actions", fault.rank,
                        fault.kind == Fault::Kind::stop ? "stops" : "crashes", fault.seconds, fault.after);
  for (const Absence& absence : its.absences)
    text += fmt::format("; worker {} leaves after iteration {} for {:.3g} s{}", absence.rank, absence.after,
                        absence.seconds, absence.is_for_good ? ", for good" : "");
  return text;
}

}  // namespace flockstep::simulation
