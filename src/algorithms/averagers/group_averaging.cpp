#include "algorithms/averagers/group_averaging.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/round_counter.h"
#include "base/check.h"
#include "math/groups.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/round_agent.h"
#include "runtime/rounds/shared_model.h"

namespace flockstep::algorithms {
namespace {

using protocol::Activation;
using protocol::Sync;

constexpr std::array<base::Choice<MergeRule>, 2> kMerges{
    {{"published", MergeRule::published}, {"additive", MergeRule::additive}}};
constexpr std::array<base::Choice<Sync>, 2> kSyncs{{{"barrier", Sync::barrier}, {"rolling", Sync::rolling}}};
constexpr std::array<base::Choice<Activation>, 4> kActivations{{{"first", Activation::first},
                                                                {"majority", Activation::majority},
                                                                {"quorum", Activation::quorum},
                                                                {"deadline", Activation::deadline}}};

template <typename Model>
class GroupAveraging final : public Algorithm, private Departures {
 public:
  GroupAveraging(const AlgorithmInputs& inputs, const protocol::Options& options)
      : context_(inputs.context),
        options_(options),
        parameters_(inputs.layout.size()),
        size_(parameters_ + inputs.buffers),
        layout_(inputs.models()),
        model_(context_, size_),
        meetings_(context_) {}

  void begin(std::int64_t step, std::span<const float> model) override {
    options_.first = step;
    model_.reset(model);
    agent_.emplace(context_, options_, parameters_, size_, model_);
  }

  void after_update(std::int64_t step, std::span<float> model) override {
    require_begun();
    meetings_.add(agent_->arrive(step, model));
    meetings_.add(agent_->take_records());
  }

  Departures* departures() override { return this; }
  void leave() override {
    require_begun();
    agent_->leave();
  }
  void come_back(std::span<float> model) override {
    agent_->come_back(model);
    meetings_.add(agent_->take_records());
  }
  std::int64_t next_step(std::int64_t counted) const override { return agent_ ? agent_->ended() : counted; }

  void consolidate(std::span<float> model) override {
    require_begun();
    const auto all = agent_->come_to_rest();
    const bool all_are_there = std::ranges::none_of(all, &runtime::RoundAgent::Standing::is_away);
    if (all_are_there && group_averaging_facts(options_).replicas_are_equal) return;
    agent_->with_data([&] { model_.proceed(model); });
    average_over_all(context_, layout_, model, those_who_count(all));
    if (all_are_there)
      adopt(model);
    else
      begin_again(std::ranges::max(all, {}, &runtime::RoundAgent::Standing::ended).ended, model);
  }

  const MeetingReport* meetings() const override { return &meetings_.report(); }

 private:
  // Who has left long ago has nothing to add.
  std::vector<bool> those_who_count(const std::vector<runtime::RoundAgent::Standing>& all) const {
    const auto newest = std::ranges::max(all, {}, &runtime::RoundAgent::Standing::ended).ended;
    std::vector<bool> counted;
    for (const auto& standing : all) counted.push_back(!standing.is_away || standing.ended >= newest - options_.period);
    return counted;
  }

  // Nobody may begin a step, and so a round, before everybody has the new model in place.
  void adopt(std::span<const float> model) {
    agent_->with_data([&] { model_.reset(model); });
    context_.wait(context_.engine().barrier(), "barrier");
  }

  // With other agents, which know nothing of those who were away.
  void begin_again(std::int64_t step, std::span<const float> model) {
    meetings_.add(agent_->take_records());
    agent_.reset();
    begin(step, model);
  }

  void require_begun() const { base::check(agent_.has_value(), "begin() before the first step"); }

  runtime::Context& context_;
  protocol::Options options_;
  std::size_t parameters_, size_;
  runtime::Layout layout_;
  Model model_;
  RoundCounter meetings_;
  std::optional<runtime::RoundAgent> agent_;  // last: it uses the others
};

}  // namespace

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
  options.merge = reader.choice("merge", kMerges);
  rounds.sync = reader.choice("sync", kSyncs);
  rounds.activation = reader.choice("activation", kActivations);
  rounds.period = reader.integer("period", 1, kAny);
  const std::int64_t group_size = is_given("group_size") ? reader.integer("group_size", 2, most) : 0,
                     quorum = is_given("quorum") ? reader.integer("quorum", 1, most) : 0;
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
  rounds.group_size = workers > 1 && group_size > 0 ? static_cast<int>(group_size) : math::default_group_size(workers);
  rounds.quorum = workers > 1 && quorum > 0 ? static_cast<int>(quorum) : std::max(1, workers - 1);
  return options;
}

Facts group_averaging_facts(const protocol::Options& options) {
  return {.replicas_are_equal = options.sync == Sync::barrier && options.period == 1, .needs_begin = true};
}

std::unique_ptr<Algorithm> make_group_averaging(const AlgorithmInputs& inputs, GroupAveragingOptions options) {
  options.protocol.seed = inputs.seed;
  if (options.merge == MergeRule::published)
    return make_averager<GroupAveraging<runtime::PublishedModel>>(inputs, options.protocol);
  return make_averager<GroupAveraging<runtime::SharedModel>>(inputs, options.protocol);
}

double group_averaging_bytes(int workers, double parameters, const GroupAveragingOptions& options) {
  if (workers == 1) return 0;
  const auto with_groups = [&](double groups) { return 8 * parameters * (workers - groups) / workers; };
  const double share = 1 / static_cast<double>(options.protocol.period);
  const double groups = math::GroupSchedule(workers, options.protocol.group_size).groups();
  return share * with_groups(1) + (1 - share) * with_groups(groups);
}

}  // namespace flockstep::algorithms
