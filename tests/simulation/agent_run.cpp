#include "simulation/agent_run.h"

#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

// Far above what any scenario takes: whoever waits longer waits for ever.
constexpr base::Duration kPatience{1e7};

}  // namespace

AgentRun::AgentRun(const ElasticScenario& scenario, const Flaws& flaws, std::FILE* history)
    : AgentWorld(scenario, flaws, history), ledger_(scenario.base), absences_(scenario.base.absences) {}

void AgentRun::run() {
  for (int rank = 0; rank < scenario_.ranks; ++rank) {
    Machine& machine = network_.begin(rank);
    cluster_.spawn(
        rank, [this, &machine] { work(machine); }, &machine.life);
  }
  try {
    cluster_.run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::deadline) throw;
    throw Violation(property::kEnds, -1, -1, error.what());
  }
  ledger_.require_conserved();
}

void AgentRun::work(Machine& machine) {
  SeededEngine engine(network_, transfers_, machine);
  runtime::Context context(engine, kPatience);
  with_model(context, [&](runtime::RoundData& data, std::vector<float>& model, std::span<float> values) {
    ledger_.begins(machine.rank, model);
    const auto flawed_data = flaws_.data ? flaws_.data(data) : nullptr;
    WatchedData watched(flawed_data ? *flawed_data : data, model, ledger_, network_, machine.rank);
    const auto flawed_rounds = flaws_.rounds ? flaws_.rounds(watched) : nullptr;
    runtime::RoundAgent agent = make_agent(context, model.size(), flawed_rounds ? *flawed_rounds : watched);
    watched.watch(agent);
    take_steps(context, agent, data.guard(), model, values);
    std::vector<float> shared(model.size());
    agent.at_rest([&] { data.give(shared); });
    if (!ledger_.all_is_over())
      throw Violation(property::kNothingLeft, machine.rank, agent.ended(), "a round is under way");
    ledger_.ends(machine.rank, shared);
    if (!data.guard()) return;
    counts_["updates cut"] += data.guard()->counts().clipped;
    counts_["not finite"] += data.guard()->counts().non_finite;
  });
}

void AgentRun::take_steps(runtime::Context& context, runtime::RoundAgent& agent, math::UpdateGuard* guard,
                          std::vector<float>& model, std::span<float> values) {
  const auto is_due = [&](const Absence& absence) {
    return absence.rank == context.rank() && agent.ended() > absence.after;
  };
  while (agent.ended() <= base_.last()) {
    take_step(context, guard, model);
    arrive(agent, values);
    const auto due = std::ranges::find_if(absences_, is_due);
    if (agent.ended() > base_.last() || due == absences_.end()) continue;
    const Absence absence = *due;
    absences_.erase(due);
    agent.leave();
    if (absence.is_for_good) return;
    compute(context, model, absence.seconds);
    agent.come_back(values);
    ++counts_["returns"];
  }
}

}  // namespace flockstep::simulation
