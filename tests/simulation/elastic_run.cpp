#include "simulation/elastic_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "simulation/counting_data.h"
#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

// Far above what is allowed: an agent must not give up before the run does.
constexpr base::Duration kElasticPatience{1e9};

}  // namespace

ElasticRun::ElasticRun(const ElasticScenario& scenario, const Flaws& flaws, std::FILE* history)
    : AgentWorld(scenario, flaws, history), roll_(network_) {
  allowed_ = (static_cast<double>(base_.iterations) + 10) * (worst_step() + 40 * worst_delays()) +
             10 * base_.options.patience.count() + 1000;
}

double ElasticRun::worst_step() const {
  return std::ranges::max(base_.step_seconds) * (1 + base_.spread) * (base_.hiccups > 0 ? base_.hiccup : 1);
}

double ElasticRun::worst_delays() const {
  return base_.control.longest + base_.parts.longest + base_.sent.longest + base_.timers.longest +
         base_.reactions.longest + scenario_.connect.longest + scenario_.close.longest + base_.options.deadline.count();
}

Counts ElasticRun::counts() const {
  using Kind = Break::Kind;
  Counts counts = AgentWorld::counts();
  counts["with a crash"] = network_.crashes() > 0;
  counts["with a partition"] = network_.broken(Kind::partition) > 0;
  counts["with a false suspicion"] = network_.broken(Kind::suspicion) > 0;
  counts["with a link down"] = network_.broken(Kind::link) > 0;
  counts["with a stop"] = cluster_.stops() > 0;
  counts["with growth"] = scenario_.has_growth();
  counts["expelled"] = network_.begun_again();
  counts["withdrawn"] = transfers_.withdrawn();
  return counts;
}

void ElasticRun::run() {
  for (int rank = 0; rank < scenario_.ranks; ++rank)
    start_later(rank, scenario_.start_after[static_cast<std::size_t>(rank)]);
  network_.on_begin_again = [this](Machine& machine) { roll_.leaves(machine); };
  network_.on_crash = [this](Machine& machine) {
    roll_.leaves(machine);
    const ElasticCrash* crash = crash_of(machine);
    if (!crash || crash->starts_after < 0) return;
    counts_["with one who comes back"] = 1;
    start_later(machine.rank, crash->starts_after);
  };
  cluster_.spawn(scenario_.ranks, [this] {
    cluster_.wait_until([this] { return running_ == 0 && to_start_ == 0; }, std::numeric_limits<double>::max());
  });
  cluster_.at(allowed_, [this] { require_end_in_time(); });
  cluster_.run();
  require_one_flock();
}

// ---- processes ----

void ElasticRun::start_later(int rank, double seconds) {
  ++to_start_;
  cluster_.at(cluster_.now() + seconds, [this, rank] { start(rank); });
}

const ElasticCrash* ElasticRun::crash_of(const Machine& machine) const {
  for (const ElasticCrash& crash : scenario_.crashes)
    if (crash.rank == machine.rank && crash.life == machine.life_number) return &crash;
  return nullptr;
}

void ElasticRun::start(int rank) {
  --to_start_;
  if (cluster_.is_broken()) return cluster_.ring(scenario_.ranks);
  ++running_;
  network_.note_fault();
  Machine& machine = network_.begin(rank);
  if (const ElasticCrash* crash = crash_of(machine)) {
    if (crash->when == ElasticCrash::When::calls) machine.crash_at = crash->calls;
    if (crash->when == ElasticCrash::When::time)
      cluster_.at(cluster_.now() + crash->seconds, [this, &machine] { network_.crash(machine); });
  }
  cluster_.spawn(
      rank,
      [this, &machine] {
        const auto end = [&] {
          network_.end(machine);
          roll_.leaves(machine);
          --running_;
          cluster_.ring(scenario_.ranks);
        };
        try {
          work(machine);
        } catch (...) {
          end();
          throw;
        }
        end();
      },
      &machine.life);
}

void ElasticRun::require_end_in_time() {
  if (running_ == 0 && to_start_ == 0) return;
  const double end = network_.last_fault() + allowed_;
  if (cluster_.now() < end) return cluster_.at(end, [this] { require_end_in_time(); });
  std::string who;
  for (int rank = 0; rank < scenario_.ranks; ++rank)
    if (network_.living(rank)) who += fmt::format("{}{}", who.empty() ? "" : ", ", rank);
  throw Violation(property::kEnds, -1, -1,
                  fmt::format("{:.3g} s after the last fault these workers have not finished: {}", allowed_, who));
}

// ---- workers ----

void ElasticRun::work(Machine& machine) {
  SeededEngine engine(network_, transfers_, machine);
  runtime::Context context(engine, kElasticPatience);
  if (scenario_.counts_models) {
    std::vector<float> model(base_.size());
    CountingData data(roll_, machine, model.size(), scenario_.ranks);
    return work_with(context, machine, data, model, model);
  }
  with_model(context, [&](runtime::RoundData& data, std::vector<float>& model, std::span<float> values) {
    SteadyData steady(data, machine, model.size());
    work_with(context, machine, steady, model, values);
  });
}

void ElasticRun::work_with(runtime::Context& context, Machine& machine, runtime::RoundData& data,
                           std::vector<float>& model, std::span<float> values) {
  ElasticData watched(data, roll_, machine);
  if (auto* counting = dynamic_cast<CountingData*>(&data)) counting->is_of(watched.round());
  const auto flawed = flaws_.rounds ? flaws_.rounds(watched) : nullptr;
  runtime::RoundAgent agent = make_agent(context, model.size(), flawed ? *flawed : watched);
  watched.watch(agent);
  watched.on_give([this, &machine] {
    const ElasticCrash* crash = crash_of(machine);
    if (crash && crash->when == ElasticCrash::When::gives)
      machine.crash_at = std::min(machine.crash_at, machine.calls + crash->calls);
  });
  watched.waits();
  agent.come_back(values);
  ++counts_["joins"];
  note_ended(machine, agent.ended());
  do take_steps(context, machine, watched, agent, model, values);
  while (!finish(machine, watched, agent, values));
  ends_.push_back({machine.rank, model, roll_.present()[&machine].last_counted, agent.ended()});
}

void ElasticRun::take_steps(runtime::Context& context, Machine& machine, ElasticData& data, runtime::RoundAgent& agent,
                            std::vector<float>& model, std::span<float> values) {
  while (agent.ended() <= base_.last()) {
    take_step(context, data.guard(), model);
    note_ended(machine, agent.ended() + 1);
    data.waits();
    arrive(agent, values);
    note_ended(machine, agent.ended());
    if (agent.has_joined_anew())
      ++counts_["joins"];
    else
      require_bound(machine, agent.ended());
  }
}

bool ElasticRun::finish(Machine& machine, ElasticData& data, runtime::RoundAgent& agent, std::span<float> values) {
  const double settled = 3 * worst_step() + 40 * worst_delays() + base_.options.patience.count();
  if (!faults_before_end_)
    faults_before_end_ = network_.is_quiet_for(settled) && to_start_ == 0 ? network_.faults() : -1;
  const ElasticCrash* crash = crash_of(machine);
  if (crash && crash->when == ElasticCrash::When::synchronises)
    machine.crash_at = std::min(machine.crash_at, machine.calls + crash->calls);
  data.waits();
  note_ended(machine, agent.ended() + 1);
  agent.synchronise(values);
  note_ended(machine, agent.ended());
  if (!agent.has_joined_anew()) return true;
  ++counts_["joins"];
  return false;
}

// ---- what must hold ----

void ElasticRun::note_ended(Machine& machine, Iteration ended) {
  if (const auto found = roll_.present().find(&machine); found != roll_.present().end()) found->second.ended = ended;
}

void ElasticRun::require_bound(const Machine& machine, Iteration next) const {
  const protocol::Options& options = base_.options;
  if (options.sync != protocol::Sync::rolling || base_.overlap) return;
  const double settled = 10 * worst_delays();
  if (!network_.is_quiet_for(settled) || cluster_.stops() > 0) return;
  for (const auto& [other, presence] : roll_.present())
    if (other != &machine && network_.is_up(machine.rank, other->rank, cluster_.now() - settled) &&
        presence.since < cluster_.now() - settled && presence.ended < next + 1 - options.period)
      throw Violation(property::kBound, machine.rank, next,
                      fmt::format("worker {} has ended {} iterations", other->rank, presence.ended));
}

void ElasticRun::require_one_flock() const {
  if (!faults_before_end_ || *faults_before_end_ != network_.faults() || cluster_.stops() > 0) return;
  for (const End& end : ends_) {
    if (end.ended != ends_.front().ended) continue;  // it has joined when the others had begun to synchronise
    const bool is_same =
        scenario_.counts_models ? end.counted == ends_.front().counted : end.model == ends_.front().model;
    if (!is_same)
      throw Violation(
          property::kOneFlock, end.rank, -1,
          fmt::format("workers {} and {} have different averages in the end", ends_.front().rank, end.rank));
  }
}

}  // namespace flockstep::simulation
