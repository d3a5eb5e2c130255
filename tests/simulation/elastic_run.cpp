#include "simulation/elastic_run.h"

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

// Far above what is allowed: an agent must not give up before the run does.
constexpr base::Duration kElasticPatience{1e9};

}  // namespace

ElasticCounts& ElasticCounts::operator+=(const ElasticCounts& other) {
  runs += other.runs;
  crashes += other.crashes;
  restarts += other.restarts;
  partitions += other.partitions;
  suspicions += other.suspicions;
  links += other.links;
  stops += other.stops;
  growths += other.growths;
  joins += other.joins;
  expulsions += other.expulsions;
  withdrawn += other.withdrawn;
  longest = std::max(longest, other.longest);
  counts += other.counts;
  return *this;
}

ElasticRun::ElasticRun(const ElasticScenario& scenario, const ElasticFlaw& flaw, const Wrap& rounds, std::FILE* history)
    : scenario_(scenario),
      rounds_(rounds),
      cluster_(scenario.base, scenario.ranks + 1),  // and the one that starts them
      network_(cluster_, scenario, flaw, history),
      transfers_(network_),
      roll_(network_) {
  allowed_ = (static_cast<double>(scenario.base.iterations) + 10) * (worst_step() + 40 * worst_delays()) +
             10 * scenario.base.options.patience.count() + 1000;
}

double ElasticRun::worst_step() const {
  double seconds = 0;
  for (const double its : scenario_.base.step_seconds) seconds = std::max(seconds, its);
  return seconds * (1 + scenario_.base.spread) * (scenario_.base.hiccups > 0 ? scenario_.base.hiccup : 1);
}

double ElasticRun::worst_delays() const {
  const Scenario& base = scenario_.base;
  return base.control.longest + base.parts.longest + base.sent.longest + base.timers.longest + base.reactions.longest +
         scenario_.connect.longest + scenario_.close.longest + base.options.deadline.count();
}

ElasticCounts ElasticRun::counts() const {
  ElasticCounts counts;
  counts.runs = 1;
  counts.crashes = network_.crashes() > 0;
  counts.restarts = restarts_ > 0;
  counts.partitions = network_.partitions() > 0;
  counts.suspicions = network_.suspicions() > 0;
  counts.links = network_.links() > 0;
  counts.stops = cluster_.stops() > 0;
  counts.growths = scenario_.has_growth();
  counts.joins = joins_;
  counts.expulsions = network_.begun_again();
  counts.withdrawn = transfers_.withdrawn();
  counts.longest = longest_;
  counts.counts = counts_;
  counts.counts.events = cluster_.events();
  counts.counts.messages = network_.control_messages();
  counts.counts.parts = transfers_.messages();
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
    ++restarts_;
    start_later(machine.rank, crash->starts_after);
  };
  cluster_.spawn(scenario_.ranks, [this] {
    cluster_.wait_until([this] { return running_ == 0 && to_start_ == 0; }, std::numeric_limits<double>::max());
  });
  cluster_.at(allowed_, [this] { require_end_in_time(); });
  cluster_.run();
  longest_ = (cluster_.now() - network_.last_fault()) / allowed_;
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
  ElasticEngine engine(network_, transfers_, machine);
  runtime::Context context(engine, kElasticPatience);
  if (scenario_.base.on_device) return work_on_device(context, machine);
  if (!scenario_.counts_models) {
    if (scenario_.base.merging == Merging::published)
      work_with_model<runtime::PublishedModel>(context, machine);
    else
      work_with_model<runtime::SharedModel>(context, machine);
    return;
  }
  std::vector<float> model(scenario_.base.size());
  CountingData data(roll_, machine, model.size(), scenario_.ranks);
  work_with(context, machine, data, model, model);
}

std::vector<float> ElasticRun::draw_model() {
  std::vector<float> model(scenario_.base.size());
  for (float& number : model) number = static_cast<float>(cluster_.random().uniform()) * 4;
  return model;
}

void ElasticRun::work_on_device(runtime::Context& context, Machine& machine) {
  std::vector<float> model = draw_model();
  LateDevice device(cluster_, model);
  math::UpdateGuard guard(math::UpdateGuard::kHeard, scenario_.base.weights);
  runtime::DeviceSharedModel data(context, device.model(), guarded_by(guard, scenario_.base));
  data.reset();
  SteadyData steady(data, machine, model.size());
  work_with(context, machine, steady, model, {});
}

template <typename Model>
void ElasticRun::work_with_model(runtime::Context& context, Machine& machine) {
  std::vector<float> model = draw_model();
  math::UpdateGuard guard(math::UpdateGuard::kHeard, scenario_.base.weights);
  Model data(context, model.size(), guarded_by(guard, scenario_.base));
  data.reset(model);
  SteadyData steady(data, machine, model.size());
  work_with(context, machine, steady, model, model);
}

void ElasticRun::work_with(runtime::Context& context, Machine& machine, runtime::RoundData& data,
                           std::vector<float>& model, std::span<float> values) {
  using runtime::RoundAgent;
  ElasticData watched(data, roll_, machine);
  if (auto* counting = dynamic_cast<CountingData*>(&data)) counting->is_of(watched.round());
  const auto flawed = rounds_ ? rounds_(watched) : nullptr;
  const auto chunks = static_cast<std::size_t>(scenario_.base.options.chunks);
  RoundAgent agent(context, scenario_.base.options, scenario_.base.parameters, model.size(),
                   flawed ? *flawed : static_cast<runtime::RoundData&>(watched),
                   scenario_.base.overlap ? RoundAgent::Pace::overlaps : RoundAgent::Pace::waits,
                   (model.size() + chunks - 1) / chunks);
  watched.watch(agent);
  watched.on_give([this, &machine] {
    const ElasticCrash* crash = crash_of(machine);
    if (crash && crash->when == ElasticCrash::When::gives)
      machine.crash_at = std::min(machine.crash_at, machine.calls + crash->calls);
  });
  watched.waits();
  agent.come_back(values);
  ++joins_;
  note_ended(machine, agent.ended());
  do take_steps(context, machine, watched, agent, model, values);
  while (!finish(machine, watched, agent, values));
  ends_.push_back({machine.rank, model, roll_.present()[&machine].last_counted, watched.members(), agent.ended()});
}

void ElasticRun::take_steps(runtime::Context& context, Machine& machine, ElasticData& data, runtime::RoundAgent& agent,
                            std::vector<float>& model, std::span<float> values) {
  while (agent.ended() <= scenario_.base.last()) {
    compute(context, model);
    take_step(cluster_.random(), scenario_.base, context.rank(), data.guard(), model);
    const Iteration iteration = agent.ended();
    note_ended(machine, iteration + 1);
    data.waits();
    const auto outcome = agent.arrive(iteration, values);
    counts_.merges += outcome.has_value();
    counts_.fresh += outcome == protocol::Outcome::fresh || outcome == protocol::Outcome::synchronised;
    counts_.rounds += static_cast<std::int64_t>(agent.take_records().size());
    note_ended(machine, agent.ended());
    if (agent.has_joined_anew())
      ++joins_;
    else
      require_bound(machine, agent.ended());
  }
}

bool ElasticRun::finish(Machine& machine, ElasticData& data, runtime::RoundAgent& agent, std::span<float> values) {
  const double settled = 3 * worst_step() + 40 * worst_delays() + scenario_.base.options.patience.count();
  if (!faults_before_end_) faults_before_end_ = network_.is_quiet_for(settled) && to_start_ == 0 ? faults() : -1;
  const ElasticCrash* crash = crash_of(machine);
  if (crash && crash->when == ElasticCrash::When::synchronises)
    machine.crash_at = std::min(machine.crash_at, machine.calls + crash->calls);
  data.waits();
  note_ended(machine, agent.ended() + 1);
  agent.synchronise(values);
  note_ended(machine, agent.ended());
  if (!agent.has_joined_anew()) return true;
  ++joins_;
  return false;
}

// Nobody else reads or writes the model meanwhile: so nothing of it is there.
void ElasticRun::compute(runtime::Context& context, std::vector<float>& model) {
  constexpr float kNothing = std::numeric_limits<float>::infinity();
  const Scenario& base = scenario_.base;
  double seconds = base.step_seconds[static_cast<std::size_t>(context.rank())];
  seconds *= 1 + base.spread * (2 * cluster_.random().uniform() - 1);
  if (cluster_.random().uniform() < base.hiccups) seconds *= base.hiccup;
  const std::vector<float> before = model;
  std::ranges::fill(model, kNothing);
  context.engine().sleep(base::Duration(seconds));
  if (!std::ranges::all_of(model, [](float number) { return number == kNothing; }))
    throw Violation(property::kOwnSpan, context.rank(), -1, "something is there");
  std::ranges::copy(before, model.begin());
}

// ---- what must hold ----

void ElasticRun::note_ended(Machine& machine, Iteration ended) {
  if (const auto found = roll_.present().find(&machine); found != roll_.present().end()) found->second.ended = ended;
}

void ElasticRun::require_bound(const Machine& machine, Iteration next) const {
  const protocol::Options& options = scenario_.base.options;
  if (options.sync != protocol::Sync::rolling || scenario_.base.overlap) return;
  const double settled = 10 * worst_delays();
  if (!network_.is_quiet_for(settled) || cluster_.stops() > 0) return;
  for (const auto& [other, presence] : roll_.present())
    if (other != &machine && network_.is_up(machine.rank, other->rank, cluster_.now() - settled) &&
        presence.since < cluster_.now() - settled && presence.ended < next + 1 - options.period)
      throw Violation(property::kBound, machine.rank, next,
                      fmt::format("worker {} has ended {} iterations", other->rank, presence.ended));
}

void ElasticRun::require_one_flock() const {
  if (!faults_before_end_ || *faults_before_end_ != faults() || cluster_.stops() > 0) return;
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
