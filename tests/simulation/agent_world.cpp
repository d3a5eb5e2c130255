#include "simulation/agent_world.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/rounds/device_shared_model.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/shared_model.h"
#include "simulation/late_device.h"
#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

using protocol::Outcome;

// The worker that is always wrong may be so beyond all bounds, once it has heard of others: whatever it does then is
// cut. Of the others' updates half of those heard may be wrong, and so none of them is far off. Running statistics are
// not measured, but have to be finite.
void spoil(base::Random& random, const Scenario& scenario, int rank, bool has_heard, std::span<float> update) {
  const double kind = random.uniform(), size = random.uniform();
  if (kind < 0.2) {
    const std::uint32_t at = random.below(static_cast<std::uint32_t>(update.size()));
    update[at] = size < 0.5 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
    return;
  }
  const bool is_huge = rank == scenario.wrong_worker && has_heard && kind > 0.8;
  const double times = std::pow(10.0, is_huge ? 2 + 28 * size : 1.5 * size);
  for (float& number : update.first(scenario.parameters)) number *= static_cast<float>(kind < 0.6 ? -times : times);
}

}  // namespace

AgentWorld::AgentWorld(const ElasticScenario& scenario, const Flaws& flaws, std::FILE* history)
    : scenario_(scenario),
      base_(scenario.base),
      flaws_(flaws),
      cluster_(base_, scenario.ranks + 1),  // and what starts workers
      network_(cluster_, scenario, flaws.engine, history),
      transfers_(network_) {}

Counts AgentWorld::counts() const {
  Counts counts = counts_;
  counts["events"] = cluster_.events();
  counts["stops"] = cluster_.stops();
  counts["control messages"] = network_.control_messages();
  counts["parts"] = transfers_.messages();
  return counts;
}

void AgentWorld::with_model(runtime::Context& context, const Work& work) {
  std::vector<float> model(base_.size());
  for (float& number : model) number = static_cast<float>(cluster_.random().uniform()) * 4;
  math::UpdateGuard guard(math::UpdateGuard::kHeard, base_.weights);
  const runtime::Guarded guarded{base_.guarded ? &guard : nullptr, base_.statistics};
  if (base_.on_device) {
    LateDevice device(cluster_, model);
    runtime::DeviceSharedModel data(context, device.model(), guarded);
    data.reset();
    work(data, model, {});
  } else if (base_.merging == Merging::published) {
    runtime::PublishedModel data(context, model.size(), guarded);
    data.reset(model);
    work(data, model, model);
  } else {
    runtime::SharedModel data(context, model.size(), guarded);
    data.reset(model);
    work(data, model, model);
  }
}

runtime::RoundAgent AgentWorld::make_agent(runtime::Context& context, std::size_t size,
                                           runtime::RoundData& data) const {
  using runtime::RoundAgent;
  const auto chunks = static_cast<std::size_t>(base_.options.chunks);
  return RoundAgent(context, base_.options, base_.parameters, size, data,
                    base_.overlap ? RoundAgent::Pace::overlaps : RoundAgent::Pace::waits, (size + chunks - 1) / chunks);
}

double AgentWorld::draw_step(int rank) {
  double seconds = base_.step_seconds[static_cast<std::size_t>(rank)];
  seconds *= 1 + base_.spread * (2 * cluster_.random().uniform() - 1);
  return cluster_.random().uniform() < base_.hiccups ? seconds * base_.hiccup : seconds;
}

// Only the worker may use the model meanwhile, so infinities stand in its place: an agent that reads them is noticed.
void AgentWorld::compute(runtime::Context& context, std::vector<float>& model, double seconds) {
  constexpr float kNothing = std::numeric_limits<float>::infinity();
  const std::vector<float> before = model;
  std::ranges::fill(model, kNothing);
  context.engine().sleep(base::Duration(seconds));
  if (!std::ranges::all_of(model, [](float number) { return number == kNothing; }))
    throw Violation(property::kOwnSpan, context.rank(), -1, "something is there");
  std::ranges::copy(before, model.begin());
}

void AgentWorld::take_step(runtime::Context& context, math::UpdateGuard* guard, std::vector<float>& model) {
  compute(context, model, draw_step(context.rank()));
  base::Random& random = cluster_.random();
  std::vector<float> update(model.size());
  for (float& number : update) number = static_cast<float>(2 * random.uniform() - 1);
  if (guard) {
    for (float& number : std::span(update).first(base_.parameters)) number += static_cast<float>(base_.drift);
    const double share = context.rank() == base_.wrong_worker ? 0.9 : base_.wrong;
    if (random.uniform() < share) spoil(random, base_, context.rank(), guard->reference() > 0, update);
    guard->count_step();
  }
  for (std::size_t i = 0; i < model.size(); ++i) model[i] += update[i];
}

void AgentWorld::arrive(runtime::RoundAgent& agent, std::span<float> values) {
  const std::optional<Outcome> outcome = agent.arrive(agent.ended(), values);
  counts_["merges"] += outcome.has_value();
  counts_["fresh"] += outcome == Outcome::fresh || outcome == Outcome::synchronised;
  counts_["rounds"] += static_cast<std::int64_t>(agent.take_records().size());
}

}  // namespace flockstep::simulation
