#include "algorithms/averagers/pair_averaging.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/presence.h"
#include "base/check.h"
#include "runtime/gather.h"

namespace flockstep::algorithms {
namespace {

using runtime::PairAgent;
using runtime::PairRecord;

class PairAveraging final : public Algorithm, private Departures {
 public:
  PairAveraging(const AlgorithmInputs& inputs, PairAgent::WhenBusy when_busy, PickPartners pick_partners,
                bool is_guarded)
      : context_(inputs.context),
        models_(inputs.models()),
        when_busy_(when_busy),
        pick_partners_(std::move(pick_partners)),
        guarded_{is_guarded ? &guard_ : nullptr, inputs.buffers} {}

  void begin(std::int64_t step, std::span<const float> model) override {
    steps_ = step;
    agent_.emplace(context_, models_, when_busy_, model, guarded_);
  }

  void after_update(std::int64_t step, std::span<float> model) override {
    require_begun();
    guard_.count_step();
    agent_->merge(model, pick_partners_(step, agent_->present()));
    steps_ = step + 1;
    take_over();
  }

  Departures* departures() override { return this; }
  void leave() override {
    require_begun();
    has_left_ = true;
    agent_->leave();
  }
  void come_back(std::span<float> model) override {
    agent_->come_back(model);
    take_over();
  }
  std::int64_t next_step(std::int64_t counted) const override { return agent_ ? steps_ : counted; }

  // The second barrier keeps those who go on from averaging with a model that is about to be replaced; other agents,
  // who know nothing of those who were away, begin with one.
  void consolidate(std::span<float> model) override {
    require_begun();
    agent_->come_to_rest(model);
    take_over();
    context_.log().info("took part in {} averages; {} that it wished for found nobody free", agent_->counts().averages,
                        agent_->counts().skipped);
    const std::array<double, 3> mine{static_cast<double>(steps_), agent_->is_away() ? 1.0 : 0.0, has_left_ ? 1.0 : 0.0};
    const std::vector<double> all = runtime::gather_doubles(context_, mine);
    std::vector<bool> is_away, counted;
    std::vector<std::optional<std::int64_t>> steps;
    std::int64_t newest = 0;
    for (std::size_t i = 0; i < all.size(); i += mine.size()) {
      newest = std::max(newest, static_cast<std::int64_t>(all[i]));
      is_away.push_back(all[i + 1] != 0);
      steps.push_back(all[i + 2] != 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(all[i])));
    }
    runtime::check_same_steps(context_, steps);
    steps_ = newest;
    has_left_ = false;
    for (std::size_t i = 0; i < is_away.size(); ++i)
      counted.push_back(!is_away[i] || all[i * mine.size()] >= static_cast<double>(steps_ - kRecentSteps));
    average_over_all(context_, models_, model, counted);
    if (std::ranges::find(is_away, true) == is_away.end()) {
      agent_->adopt(model);
      context_.wait(context_.engine().barrier(), "barrier");
    } else {
      earlier_ = report_;
      agent_.reset();
      begin(steps_, model);
    }
  }

  const MeetingReport* meetings() const override { return &report_; }
  std::vector<math::Finding> findings() override {
    std::vector<math::Finding> findings;
    if (agent_) agent_->with_data([&] { findings = findings_of(guard_, context_.rank()); });
    return findings;
  }

 private:
  void require_begun() const { base::check(agent_.has_value(), "begin() before the first step"); }

  // A step that finds a new average is not in it: x was frozen while that step was computed. So none is ever fresh.
  void take_over() {
    report_.stale = earlier_.stale + agent_->counts().met;
    report_.alone = earlier_.alone + agent_->counts().alone;
    for (const PairRecord& average : agent_->take_records()) add(average);
  }

  // What was contributed was the model of the step before the one that the worker was at, unless it waited.
  void add(const PairRecord& average) {
    using base::RoundRole;
    const bool asked_here = average.activator == context_.rank();
    report_.staleness.resize(2);
    ++report_.staleness[average.is_newest ? 0 : 1];
    report_.round_s += (average.end - average.begin).count();
    context_.record({.role = asked_here          ? RoundRole::activated_here
                             : average.is_newest ? RoundRole::fresh
                                                 : RoundRole::passive,
                     .begin = average.begin,
                     .end = average.end,
                     .number = average.number,
                     .activator = average.activator});
  }

  runtime::Context& context_;
  const runtime::Layout models_;
  const PairAgent::WhenBusy when_busy_;
  const PickPartners pick_partners_;
  math::UpdateGuard guard_;  // the agent's, but for steps, which the worker counts while it asks for nothing
  const runtime::Guarded guarded_;
  std::int64_t steps_ = 0;
  bool has_left_ = false;           // since workers last had the same number of steps
  MeetingReport report_, earlier_;  // earlier_: what agents before this one have counted
  std::optional<PairAgent> agent_;
};

}  // namespace

std::unique_ptr<Algorithm> make_pair_averaging(const AlgorithmInputs& inputs, PairAgent::WhenBusy when_busy,
                                               PickPartners pick_partners, bool is_guarded) {
  return make_averager<PairAveraging>(inputs, when_busy, std::move(pick_partners), is_guarded);
}

}  // namespace flockstep::algorithms
