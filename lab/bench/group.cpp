#include "bench/group.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "bench/plain_all_reduce.h"
#include "bench/recursive_doubling.h"
#include "bench/workers.h"
#include "math/groups.h"
#include "runtime/gather.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/round_agent.h"
#include "runtime/rounds/shared_model.h"

namespace flockstep::bench {
namespace {

using protocol::Outcome;

constexpr double kAllReduceBar = 1.0, kDoublingBar = 0.75, kLateBar = 0.20, kMemoryBar = 3, kIdleBar = 0.02,
                 kGuardBar = 1.03;
constexpr int kDoublingFrom = 4;  // members: with two, both move the same bytes
constexpr const char *kRound = "round", *kAllReduce = "all-reduce", *kDoubling = "recursive doubling",
                     *kGuarded = "guarded round";

// One worker's part, for one group size. Groups change from round to round; the others use those of the first.
class Rounds {
 public:
  Rounds(engines::Engine& engine, std::size_t floats, int group_size)
      : context_(engine, kPatience),
        floats_(floats),
        schedule_(engine.size(), group_size),
        group_(schedule_.group_of(engine.rank(), 0)),
        model_(allocate("model")),
        sum_(allocate("sum")),
        all_reduce_(context_, group_, floats),
        published_(context_, floats) {
    const auto groups = static_cast<std::size_t>(schedule_.groups());
    if (groups * group_.size() == static_cast<std::size_t>(engine.size()) && RecursiveDoubling::takes(group_.size()))
      doubling_.emplace(context_, group_, floats);
    fill_input(engine.rank(), model_.span());
    published_.reset(model_.span());
    agent_.emplace(context_, rounds_without_end(engine.size(), group_size), floats, floats, published_);
  }

  // What is published at first is what the worker arrives with, so that the average is the same whether the round finds
  // it there or not; only what becomes of the average differs.
  void verify() {
    meet(context_);
    verify_merged(group_, context_.rank(), arrive(), model_.span());
    verify([this](std::span<float> values) { all_reduce_(values); }, "the all-reduce");
    if (doubling_) verify([this](std::span<float> values) { doubling_->all_reduce(values); }, kDoubling);
  }

  // A sum of sums would overflow, so those start from zeros: time does not depend on values.
  GroupTimes measure(const HarnessOptions& harness) {
    std::ranges::fill(sum_.span(), 0.0f);
    const auto together = [this] { meet(context_); };
    std::vector<Contender> contenders{{kRound, [this] { arrive(); }, together},
                                      {kAllReduce, [this] { all_reduce_(sum_.span()); }, together}};
    if (doubling_) contenders.push_back({kDoubling, [this] { doubling_->all_reduce(sum_.span()); }, together});
    const Timings timings = slowest(context_, run_interleaved(contenders, harness));

    GroupTimes times;
    times.round_seconds = timings.seconds(kRound);
    times.all_reduce_seconds = timings.seconds(kAllReduce);
    times.over_all_reduce = timings.ratio(kRound, kAllReduce);
    if (doubling_) {
      times.doubling_seconds = timings.seconds(kDoubling);
      times.over_doubling = timings.ratio(kRound, kDoubling);
    }
    const double mine = static_cast<double>(fresh_) / static_cast<double>(iteration_);
    for (const double share : runtime::gather_doubles(context_, {&mine, 1}))
      times.fresh_share += share / context_.size();
    return times;
  }

 private:
  base::Buffer<float> allocate(const char* purpose) {
    return context_.engine().memory().allocate<float>(floats_, purpose);
  }

  Outcome arrive() {
    const Outcome outcome = *agent_->arrive(iteration_++, model_.span());
    if (outcome == Outcome::fresh) ++fresh_;
    return outcome;
  }

  void verify(const AllReduce& all_reduce, const char* name) {
    fill_input(context_.rank(), sum_.span());
    meet(context_);
    all_reduce(sum_.span());
    verify_sum(group_, sum_.span(), name);
  }

  runtime::Context context_;
  std::size_t floats_;
  math::GroupSchedule schedule_;
  std::vector<int> group_;
  base::Buffer<float> model_, sum_;
  PlainAllReduce all_reduce_;
  std::optional<RecursiveDoubling> doubling_;
  protocol::Iteration iteration_ = 0, fresh_ = 0;
  runtime::PublishedModel published_;
  std::optional<runtime::RoundAgent> agent_;  // last: it uses the others
};

// Rounds of one kind of merge, with a guard and without, in turn.
template <typename Model>
class GuardedRounds {
 public:
  GuardedRounds(engines::Engine& engine, std::size_t floats, int group_size)
      : context_(engine, kPatience), model_(engine.memory().allocate<float>(floats, "model")), data_(context_, floats) {
    fill_input(engine.rank(), model_.span());
    data_.reset(model_.span());
    agent_.emplace(context_, rounds_without_end(engine.size(), group_size), floats, floats, data_);
  }

  GuardTimes measure(const HarnessOptions& harness) {
    const auto arrive = [this] { agent_->arrive(iteration_++, model_.span()); };
    const std::vector<Contender> contenders{{kRound, arrive, [this] { begin(nullptr); }},
                                            {kGuarded, arrive, [this] { begin(&guard_); }}};
    const Timings timings = slowest(context_, run_interleaved(contenders, harness));
    GuardTimes times;
    times.round_seconds = timings.seconds(kRound);
    times.guarded_seconds = timings.seconds(kGuarded);
    times.over_unguarded = timings.ratio(kGuarded, kRound);
    return times;
  }

 private:
  // The worker makes a step, all alike.
  void begin(math::UpdateGuard* guard) {
    for (float& number : model_.span()) number += 1.0f / 1024;
    meet(context_);
    agent_->with_data([&] { data_.guard_with({.guard = guard}); });
    meet(context_);
  }

  runtime::Context context_;
  base::Buffer<float> model_;
  math::UpdateGuard guard_;
  Model data_;
  protocol::Iteration iteration_ = 0;
  std::optional<runtime::RoundAgent> agent_;  // last: it uses the others
};

template <typename Model>
GuardTimes measure_guard(const engines::Backend& backend, const GroupBenchOptions& options, const char* merge,
                         int group_size) {
  auto times = run_on_workers<GuardTimes>(backend, options.launch, [&](engines::Engine& engine) {
    return GuardedRounds<Model>(engine, options.floats, group_size).measure(options.harness);
  });
  times.merge = merge;
  times.group_size = group_size;
  return times;
}

std::vector<int> group_sizes(const GroupBenchOptions& options, int workers) {
  std::vector<int> wanted = options.group_sizes;
  if (wanted.empty()) wanted = {math::default_group_size(workers), 4, 8};
  std::set<int> sizes;
  for (const int size : wanted) sizes.insert(std::min(size, workers));
  return {sizes.begin(), sizes.end()};
}

void add_targets(const GroupBenchOptions& options, GroupBench& result) {
  const std::string library = result.own_ring ? "a ring all-reduce" : "the all-reduce";
  for (const GroupTimes& times : result.sizes) {
    const std::string where =
        fmt::format("{}, S = {}, {} floats, P = {}", options.engine, times.group_size, options.floats, result.workers);
    result.targets.push_back(at_most("W1",
                                     fmt::format("wait-avoiding round / {} in all groups at once, {}", library, where),
                                     times.over_all_reduce, kAllReduceBar));
    if (times.over_doubling && times.group_size >= kDoublingFrom)
      result.targets.push_back(at_most("W2",
                                       fmt::format("wait-avoiding round / recursive doubling as published, {}", where),
                                       *times.over_doubling, kDoublingBar));
  }
  result.targets.push_back(
      at_most("W3",
              fmt::format("time of the first worker in the round / in {}, others {:.0f} ms late each, {}, {} floats, P "
                          "= {}",
                          library, 1e3 * kLateness.count(), options.engine, kLateFloats, result.workers),
              result.late.over_all_reduce, kLateBar));
  for (const GuardTimes& times : result.guards)
    result.targets.push_back(
        at_most("R3",
                fmt::format("round with guard / without, {} merge, {}, S = {}, {} floats, P = {}", times.merge,
                            options.engine, times.group_size, options.floats, result.workers),
                times.over_unguarded, kGuardBar));
  for (const AlgorithmMemory& memory : result.memory)
    result.targets.push_back(
        at_most("W5",
                fmt::format("extra memory of {} / the model, beside {:.1f} MiB for parts under way, P = {}",
                            memory.algorithm, static_cast<double>(memory.staging_bytes) / (1 << 20), result.workers),
                constant(memory.models), kMemoryBar));
  result.targets.push_back(at_most("W6", fmt::format("share of a core that an idle agent takes, {}", options.engine),
                                   constant(result.idle_share), kIdleBar));
}

}  // namespace

GroupBench run_group_bench(const GroupBenchOptions& options) {
  const engines::Backend& backend = find_real_backend(options.engine);
  auto result = run_on_workers<GroupBench>(backend, options.launch, [&](engines::Engine& engine) {
    GroupBench begun;
    begun.workers = engine.size();
    begun.rank = engine.rank();
    begun.own_ring = !has_library_all_reduce(engine);
    if (engine.size() < 2) return begun;
    begun.memory = measure_memory(engine, options.floats);
    begun.idle_share = measure_idle_agent(engine);
    return begun;
  });
  if (result.workers < 2)
    throw Error(ErrorCode::bad_input, "groups need at least two workers: start more by --workers or mpirun -n");
  // Each on an engine of its own, so that no late message of one agent meets the next.
  for (const int group_size : group_sizes(options, result.workers)) {
    result.sizes.push_back(run_on_workers<GroupTimes>(backend, options.launch, [&](engines::Engine& engine) {
      Rounds rounds(engine, options.floats, group_size);
      rounds.verify();
      return rounds.measure(options.harness);
    }));
    result.sizes.back().group_size = group_size;
  }
  const int group_size = group_sizes(options, result.workers).front();
  result.guards = {measure_guard<runtime::PublishedModel>(backend, options, "published", group_size),
                   measure_guard<runtime::SharedModel>(backend, options, "additive", group_size)};
  result.late = run_on_workers<LateArrivals>(
      backend, options.launch, [&](engines::Engine& engine) { return measure_late_arrivals(engine, options.harness); });
  add_targets(options, result);
  return result;
}

}  // namespace flockstep::bench
