#include "algorithms/averagers/group_averaging.h"

#include <fmt/core.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <numeric>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/nodes.h"
#include "algorithms/averagers/round_counter.h"
#include "base/check.h"
#include "engines/run_record.h"
#include "math/groups.h"
#include "protocol/schedule.h"
#include "runtime/gather.h"
#include "runtime/rounds/device_shared_model.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/round_agent.h"
#include "runtime/rounds/shared_model.h"

namespace flockstep::algorithms {
namespace {

using protocol::Activation;
using protocol::Grouping;
using protocol::Sync;

constexpr std::array<base::Choice<MergeRule>, 2> kMerges{
    {{"published", MergeRule::published}, {"additive", MergeRule::additive}}};
constexpr std::array<base::Choice<Sync>, 2> kSyncs{{{"barrier", Sync::barrier}, {"rolling", Sync::rolling}}};
constexpr std::array<base::Choice<Activation>, 4> kActivations{{{"first", Activation::first},
                                                                {"majority", Activation::majority},
                                                                {"quorum", Activation::quorum},
                                                                {"deadline", Activation::deadline}}};

constexpr std::array<base::Choice<Grouping>, 3> kGroupings{
    {{"dynamic", Grouping::dynamic}, {"fixed", Grouping::fixed}, {"nodes", Grouping::nodes}}};
constexpr std::int64_t kUsuallyAcross = 4;
constexpr std::array<base::Choice<math::UpdateWeights>, 3> kWeights{
    {{"mean", math::UpdateWeights::mean},
     {"direction_consensus", math::UpdateWeights::direction_consensus},
     {"geometric_median", math::UpdateWeights::geometric_median}}};
constexpr std::array<base::Choice<bool>, 2> kOverlaps{{{"off", false}, {"on", true}}};

// Where a worker's model is: in the span that hooks are given ...
template <typename Model>
struct InSpan : Model {
  InSpan(const AlgorithmInputs& inputs, const GroupAveragingOptions&,
         math::UpdateGuard* guard) requires std::same_as<Model, runtime::PublishedModel>
      : Model(inputs.context, inputs.models().size(), {guard, inputs.buffers}) {}
  InSpan(const AlgorithmInputs& inputs, const GroupAveragingOptions& options,
         math::UpdateGuard* guard) requires std::same_as<Model, runtime::SharedModel>
      : Model(inputs.context, inputs.models().size(), {guard, inputs.buffers}, options.outer) {}
  void begin_from(std::span<const float> model) { Model::reset(model); }
  std::span<float> whole(std::span<float> model) { return model; }
  void adopt(std::span<const float> whole) { Model::reset(whole); }
};
// ... or on a device.
struct OnDevice : runtime::DeviceSharedModel {
  OnDevice(const AlgorithmInputs& inputs, const GroupAveragingOptions&, math::UpdateGuard* guard)
      : DeviceSharedModel(inputs.context, *inputs.device_model, {guard, inputs.buffers}) {}
  void begin_from(std::span<const float>) { reset(); }
  std::span<float> whole(std::span<float>) { return DeviceSharedModel::whole(); }
  void adopt(std::span<const float>) { DeviceSharedModel::adopt(); }
};

template <typename Model>
class GroupAveraging final : public Algorithm, private Departures {
 public:
  GroupAveraging(const AlgorithmInputs& inputs, const GroupAveragingOptions& options)
      : context_(inputs.context),
        options_(options),
        parameters_(inputs.layout.size()),
        size_(parameters_ + inputs.buffers),
        layout_(inputs.models()),
        guard_(math::UpdateGuard::kHeard, options.weights),
        model_(inputs, options, options.guard ? &guard_ : nullptr),
        meetings_(context_) {}

  void begin(std::int64_t step, std::span<const float> model) override {
    if (options_.finds_nodes) find_nodes();
    model_.begin_from(model);
    start(step);
  }

  void after_update(std::int64_t step, std::span<float> model) override {
    require_begun();
    guard_.count_step();
    steps_ = step + 1;
    if (steps_ % options_.steps_a_round == 0)
      meetings_.add(agent_->arrive(steps_ / options_.steps_a_round - 1, model));
    else if (!options_.outer)
      agent_->catch_up(model);
    meetings_.add(agent_->take_records());
    if (agent_->has_joined_anew()) follow();
  }

  Departures* departures() override { return this; }
  void leave() override {
    require_begun();
    agent_->leave();
  }
  void come_back(std::span<float> model) override {
    auto* const record = dynamic_cast<engines::RunRecord*>(&context_.engine());
    std::function<protocol::Iteration()> load;
    if (record && record->load)
      load = [this, record, model] {
        const std::int64_t steps = record->load();
        model_.begin_from(model);
        return steps / options_.steps_a_round;
      };
    agent_->come_back(model, load);
    meetings_.add(agent_->take_records());
    if (options_.protocol.elastic) follow();
  }
  // A worker that overlaps rounds may take some steps before it arrives at the next.
  std::int64_t next_step(std::int64_t counted) const override {
    return agent_ ? std::max(steps_, agent_->ended() * options_.steps_a_round) : counted;
  }

  void consolidate(std::span<float> model) override {
    require_begun();
    if (options_.protocol.elastic) return synchronise(model);
    const auto all = agent_->come_to_rest();
    const bool all_are_there = std::ranges::none_of(all, &runtime::RoundAgent::Standing::is_away);
    if (all_are_there && group_averaging_facts(options_).replicas_are_equal) return;
    meetings_.add(agent_->settle(model));
    go_on_from_the_last_step();
    const std::span<float> whole = model_.whole(model);
    average_over_all(context_, layout_, whole, those_who_count(all));
    if (all_are_there)
      adopt(whole);
    else
      begin_again(std::ranges::max(all, {}, &runtime::RoundAgent::Standing::ended).ended, whole);
  }

  const MeetingReport* meetings() const override { return &meetings_.report(); }
  std::vector<math::Finding> findings() override {
    std::vector<math::Finding> findings;
    if (agent_) agent_->with_data([&] { findings = findings_of(guard_, context_.rank()); });
    return findings;
  }

 private:
  // Where workers come and go nobody can be asked: who begins a run says how many workers a node has.
  void find_nodes() {
    options_.finds_nodes = false;
    protocol::Options& rounds = options_.protocol;
    if (!rounds.elastic) rounds.nodes = nodes_of_all(context_);
    rounds.group_size = rounds.elastic ? context_.engine().place().workers : rounds.nodes.front();
  }

  // Where workers come and go: a round like others, which counts as a step. Whoever has left is back with it.
  void synchronise(std::span<float> model) {
    agent_->synchronise(model);
    meetings_.add(agent_->take_records());
    follow();
  }

  // As those count who are there.
  void follow() { steps_ = agent_->ended() * options_.steps_a_round; }

  // Who has left long ago has nothing to add.
  std::vector<bool> those_who_count(const std::vector<runtime::RoundAgent::Standing>& all) const {
    const auto newest = std::ranges::max(all, {}, &runtime::RoundAgent::Standing::ended).ended;
    std::vector<bool> counted;
    for (const auto& standing : all)
      counted.push_back(!standing.is_away || standing.ended >= newest - options_.protocol.period);
    return counted;
  }

  // Nobody may begin a step, and so a round, before everybody has the new model in place.
  void adopt(std::span<const float> whole) {
    agent_->with_data([&] { model_.adopt(whole); });
    context_.wait(context_.engine().barrier(), "barrier");
  }

  // Between two rounds workers may be a few steps apart.
  void go_on_from_the_last_step() {
    if (options_.steps_a_round == 1) return;
    const auto mine = static_cast<double>(steps_);
    steps_ = static_cast<std::int64_t>(std::ranges::max(runtime::gather_doubles(context_, {&mine, 1})));
  }

  // With other agents, which know nothing of those who were away.
  void begin_again(protocol::Iteration round, std::span<const float> whole) {
    meetings_.add(agent_->take_records());
    agent_.reset();
    model_.adopt(whole);
    start(std::max(steps_, round * options_.steps_a_round));
  }

  void start(std::int64_t step) {
    steps_ = step;
    options_.protocol.first = step / options_.steps_a_round;
    using Pace = runtime::RoundAgent::Pace;
    agent_.emplace(context_, options_.protocol, parameters_, size_, model_,
                   options_.overlap ? Pace::overlaps : Pace::waits);
  }

  void require_begun() const { base::check(agent_.has_value(), "begin() before the first step"); }

  runtime::Context& context_;
  GroupAveragingOptions options_;
  std::int64_t steps_ = 0;
  std::size_t parameters_, size_;
  runtime::Layout layout_;
  math::UpdateGuard guard_;  // the agent's, but for steps, which the worker counts while it asks for nothing
  Model model_;
  RoundCounter meetings_;
  std::optional<runtime::RoundAgent> agent_;  // last: it uses the others
};

// With Grouping::nodes a group is as large as a node. Nodes that the engine has to be asked for are taken for one of
// all workers until then, which sends the most.
void read_groups(const base::SettingsReader& reader, std::string_view name, int workers,
                 GroupAveragingOptions& options) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const auto is_given = [&](std::string_view option) { return reader.text(option) != "auto"; };
  const std::int64_t most = workers > 1 ? workers : kAny;
  protocol::Options& rounds = options.protocol;
  rounds.groups = reader.choice("groups", kGroupings);
  const std::int64_t group_size = is_given("group_size") ? reader.integer("group_size", 2, most) : 0,
                     per_node = is_given("workers_per_node") ? reader.integer("workers_per_node", 1, most) : 0;
  rounds.across = is_given("across") ? reader.integer("across", 2, kAny) : kUsuallyAcross;
  if (rounds.groups == Grouping::nodes) {
    if (group_size > 0)
      throw Error(
          ErrorCode::bad_input,
          fmt::format("--{0}.group_size is not for --{0}.groups nodes, where a group is as large as a node: give "
                      "--{0}.workers_per_node",
                      name));
    options.finds_nodes = per_node == 0;
    rounds.group_size = workers > 1 && per_node > 0 ? static_cast<int>(per_node) : std::max(2, workers);
    return;
  }
  for (const auto* option : {"across", "workers_per_node"})
    if (is_given(option))
      throw Error(ErrorCode::bad_input,
                  fmt::format("--{0}.{1} needs --{0}.groups nodes, not '{2}'", name, option, reader.text("groups")));
  // One worker alone may get company, where others join it.
  rounds.group_size =
      workers > 1 && group_size > 0 ? static_cast<int>(group_size) : math::default_group_size(std::max(2, workers));
}

}  // namespace

bool overlap_of(const base::SettingsReader& reader) { return reader.choice("overlap", kOverlaps); }

// What is said is checked even where one worker has no use for it, but for ranges that its number would make empty.
GroupAveragingOptions group_averaging_options(std::string_view name, std::span<const base::OptionSpec> specs,
                                              const base::Settings& settings, int workers) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const base::SettingsReader reader(name, specs, settings);
  const auto is_given = [&](std::string_view option) { return reader.text(option) != "auto"; };
  const std::int64_t most = workers > 1 ? workers : kAny;
  GroupAveragingOptions options;
  protocol::Options& rounds = options.protocol;
  rounds.workers = workers;
  options.survives_losses = true;
  options.merge = reader.choice("merge", kMerges);
  rounds.sync = reader.choice("sync", kSyncs);
  options.overlap = overlap_of(reader);
  options.guard = guard_of(reader);
  options.weights = reader.choice("weights", kWeights);
  if (options.weights != math::UpdateWeights::mean && !options.guard)
    throw Error(ErrorCode::bad_input, fmt::format("--{0}.weights {1} needs --{0}.guard on, which tells workers of "
                                                  "each other's updates",
                                                  name, reader.text("weights")));
  rounds.activation = is_given("activation") ? reader.choice("activation", kActivations)
                      : options.overlap      ? Activation::deadline
                                             : Activation::majority;
  rounds.period = reader.integer("period", 1, kAny);
  read_groups(reader, name, workers, options);
  const std::int64_t quorum = is_given("quorum") ? reader.integer("quorum", 1, most) : 0;
  if (is_given("deadline")) {
    rounds.deadline = reader.duration("deadline");
    if (rounds.deadline <= base::Duration(0))
      throw Error(ErrorCode::bad_input,
                  fmt::format("--{}.deadline takes a time above 0, not '{}'", name, reader.text("deadline")));
  }
  for (const auto& [option, activation] : {std::pair{"quorum", Activation::quorum}, {"deadline", Activation::deadline}})
    if (is_given(option) && rounds.activation != activation)
      throw Error(ErrorCode::bad_input, fmt::format("--{0}.{1} needs --{0}.activation {1}, not '{2}'", name, option,
                                                    reader.text("activation")));
  if (options.overlap && options.merge != MergeRule::additive)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("--{0}.overlap on needs --{0}.merge additive: the published merge waits for its round", name));
  rounds.quorum = workers > 1 && quorum > 0 ? static_cast<int>(quorum) : std::max(1, workers - 1);
  return options;
}

Facts group_averaging_facts(const GroupAveragingOptions& options) {
  const bool makes_equal = options.protocol.sync == Sync::barrier && options.protocol.period == 1;
  return {.replicas_are_equal = makes_equal && !options.overlap,
          .needs_begin = true,
          .merges_on_device = options.merge == MergeRule::additive && !options.outer,
          .survives_losses = options.survives_losses};
}

std::unique_ptr<Algorithm> make_group_averaging(const AlgorithmInputs& inputs, GroupAveragingOptions options) {
  options.protocol.seed = inputs.seed;
  options.protocol.elastic = inputs.fingerprint && options.survives_losses;
  options.protocol.fingerprint = inputs.fingerprint.value_or(0);
  if (options.merge == MergeRule::published)
    return make_averager<GroupAveraging<InSpan<runtime::PublishedModel>>>(inputs, options);
  if (inputs.device_model) return make_averager<GroupAveraging<OnDevice>>(inputs, options);
  return make_averager<GroupAveraging<InSpan<runtime::SharedModel>>>(inputs, options);
}

double group_averaging_bytes(int workers, double parameters, const GroupAveragingOptions& options) {
  if (workers == 1) return 0;
  const auto with_groups = [&](std::size_t groups) {
    return 8 * parameters * (workers - static_cast<double>(groups)) / workers;
  };
  const protocol::Options& rounds = options.protocol;
  const protocol::Schedule schedule(rounds, workers);
  const auto period = static_cast<double>(rounds.period);
  double across = 0;  // the share of rounds that go across nodes and are not over all
  if (rounds.groups == Grouping::nodes)
    across =
        (1 - static_cast<double>(std::gcd(rounds.across, rounds.period)) / period) / static_cast<double>(rounds.across);
  const double a_round = with_groups(1) / period + across * with_groups(schedule.partition(rounds.across - 1).size()) +
                         (1 - 1 / period - across) * with_groups(schedule.partition(0).size());
  return a_round / static_cast<double>(options.steps_a_round);
}

}  // namespace flockstep::algorithms
