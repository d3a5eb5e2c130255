#include "simulation/agent_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/rounds/device_shared_model.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/shared_model.h"
#include "simulation/late_device.h"
#include "simulation/updates.h"
#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

using protocol::Outcome;

// Far above what any scenario takes: whoever waits longer waits for ever.
constexpr base::Duration kPatience{1e7};

}  // namespace

AgentRun::AgentRun(const Scenario& scenario, const AgentFlaw& flaw, std::FILE* history)
    : scenario_(scenario),
      flaw_(flaw),
      history_(history),
      cluster_(scenario),
      network_(cluster_, flaw.lie),
      ledger_(scenario),
      absences_(scenario.absences) {}

void AgentRun::run() {
  for (int rank = 0; rank < scenario_.options.workers; ++rank)
    cluster_.spawn(rank, [this, rank] {
      if (scenario_.on_device)
        work_on_device(rank);
      else if (scenario_.merging == Merging::published)
        work<runtime::PublishedModel>(rank);
      else
        work<runtime::SharedModel>(rank);
    });
  try {
    cluster_.run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::deadline) throw;
    throw Violation(property::kEnds, -1, -1, error.what());
  }
  ledger_.require_conserved();
  counts_.events = cluster_.events();
  counts_.stops = cluster_.stops();
  counts_.messages = network_.control_messages();
  counts_.parts = network_.transfers().messages();
}

std::vector<float> AgentRun::draw_model() {
  std::vector<float> model(scenario_.size());
  for (float& number : model) number = static_cast<float>(cluster_.random().uniform()) * 4;
  return model;
}

template <typename Model>
void AgentRun::work(int rank) {
  SeededEngine engine(network_, rank);
  runtime::Context context(engine, kPatience);
  std::vector<float> model = draw_model();
  math::UpdateGuard guard(math::UpdateGuard::kHeard, scenario_.weights);
  Model data(context, model.size(), guarded_by(guard, scenario_));
  data.reset(model);
  work_with(context, data, model, model);
}

void AgentRun::work_on_device(int rank) {
  SeededEngine engine(network_, rank);
  runtime::Context context(engine, kPatience);
  std::vector<float> model = draw_model();
  LateDevice device(cluster_, model);
  math::UpdateGuard guard(math::UpdateGuard::kHeard, scenario_.weights);
  runtime::DeviceSharedModel data(context, device.model(), guarded_by(guard, scenario_));
  data.reset();
  work_with(context, data, model, {});
}

void AgentRun::work_with(runtime::Context& context, runtime::RoundData& data, std::vector<float>& model,
                         std::span<float> values) {
  ledger_.begins(context.rank(), model);
  const auto flawed_data = flaw_.data ? flaw_.data(data) : nullptr;
  WatchedData watched(flawed_data ? *flawed_data : data, model, ledger_, context, history_);
  const auto flawed_rounds = flaw_.rounds ? flaw_.rounds(watched) : nullptr;
  const auto chunks = static_cast<std::size_t>(scenario_.options.chunks);
  runtime::RoundAgent agent(context, scenario_.options, scenario_.parameters, model.size(),
                            flawed_rounds ? *flawed_rounds : static_cast<runtime::RoundData&>(watched),
                            scenario_.overlap ? runtime::RoundAgent::Pace::overlaps : runtime::RoundAgent::Pace::waits,
                            (model.size() + chunks - 1) / chunks);
  watched.watch(agent);
  take_steps(context, agent, data.guard(), model, values);
  std::vector<float> shared(model.size());
  agent.at_rest([&] { data.give(shared); });
  if (!ledger_.all_is_over())
    throw Violation(property::kNothingLeft, context.rank(), agent.ended(), "a round is under way");
  ledger_.ends(context.rank(), shared);
  if (!data.guard()) return;
  counts_.cut += data.guard()->counts().clipped;
  counts_.not_finite += data.guard()->counts().non_finite;
}

void AgentRun::take_steps(runtime::Context& context, runtime::RoundAgent& agent, math::UpdateGuard* guard,
                          std::vector<float>& model, std::span<float> values) {
  Iteration iteration = scenario_.options.first;
  while (iteration <= scenario_.last()) {
    compute(context, model, draw_step(context.rank()));
    take_step(cluster_.random(), scenario_, context.rank(), guard, model);
    count(agent.arrive(iteration, values));
    counts_.rounds += static_cast<std::int64_t>(agent.take_records().size());
    iteration = agent.ended();
    const auto absence = absence_due(context.rank(), iteration);
    if (!absence) continue;
    agent.leave();
    if (absence->is_for_good) return;
    compute(context, model, absence->seconds);
    agent.come_back(values);
    ++counts_.returns;
    iteration = agent.ended();
  }
}

// Nobody else reads or writes the model meanwhile: so nothing of it is there.
void AgentRun::compute(runtime::Context& context, std::vector<float>& model, double seconds) {
  constexpr float kNothing = std::numeric_limits<float>::infinity();
  const std::vector<float> before = model;
  std::ranges::fill(model, kNothing);
  context.engine().sleep(base::Duration(seconds));
  if (!std::ranges::all_of(model, [](float number) { return number == kNothing; }))
    throw Violation(property::kOwnSpan, context.rank(), ledger_.round_of(context.rank()), "something is there");
  std::ranges::copy(before, model.begin());
}

void AgentRun::count(std::optional<Outcome> outcome) {
  counts_.merges += outcome.has_value();
  counts_.fresh += outcome == Outcome::fresh || outcome == Outcome::synchronised;
}

std::optional<Absence> AgentRun::absence_due(int rank, Iteration next) {
  const auto due = std::ranges::find_if(
      absences_, [&](const Absence& absence) { return absence.rank == rank && next > absence.after; });
  if (next > scenario_.last() || due == absences_.end()) return std::nullopt;
  const Absence absence = *due;
  absences_.erase(due);
  return absence;
}

double AgentRun::draw_step(int rank) {
  double seconds = scenario_.step_seconds[static_cast<std::size_t>(rank)];
  seconds *= 1 + scenario_.spread * (2 * cluster_.random().uniform() - 1);
  return cluster_.random().uniform() < scenario_.hiccups ? seconds * scenario_.hiccup : seconds;
}

}  // namespace flockstep::simulation
