#include "algorithms/pair_averaging.h"

#include <spdlog/logger.h>

#include <optional>
#include <utility>

#include "algorithms/alone.h"
#include "algorithms/average_over_all.h"
#include "base/check.h"

namespace flockstep::algorithms {
namespace {

using runtime::PairAgent;
using runtime::PairRecord;

class PairAveraging final : public Algorithm {
 public:
  PairAveraging(const AlgorithmInputs& inputs, PairAgent::WhenBusy when_busy, PickPartners pick_partners)
      : context_(inputs.context),
        models_(inputs.models()),
        when_busy_(when_busy),
        pick_partners_(std::move(pick_partners)) {}

  void begin(std::int64_t, std::span<const float> model) override {
    agent_.emplace(context_, models_, when_busy_, model);
  }
  bool needs_begin() const override { return true; }

  void after_update(std::int64_t step, std::span<float> model) override {
    require_begun();
    agent_->merge(model, pick_partners_(step));
    take_over();
  }

  bool replicas_are_equal() const override { return false; }

  // The second barrier keeps those who go on from averaging with a model that is about to be replaced.
  void consolidate(std::span<float> model) override {
    require_begun();
    agent_->come_to_rest(model);
    take_over();
    context_.log().info("took part in {} averages; {} that it wished for found nobody free", agent_->counts().averages,
                        agent_->counts().skipped);
    average_over_all(context_, models_, model);
    agent_->adopt(model);
    context_.wait(context_.engine().barrier(), "barrier");
  }

  const MeetingReport* meetings() const override { return &report_; }

 private:
  void require_begun() const { base::check(agent_.has_value(), "begin() before the first step"); }

  // A step that finds a new average is not in it: x was frozen while that step was computed. So none is ever fresh.
  void take_over() {
    report_.stale = agent_->counts().met;
    report_.alone = agent_->counts().alone;
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
  MeetingReport report_;
  std::optional<PairAgent> agent_;
};

}  // namespace

std::unique_ptr<Algorithm> make_pair_averaging(const AlgorithmInputs& inputs, PairAgent::WhenBusy when_busy,
                                               PickPartners pick_partners) {
  return make_averager<PairAveraging>(inputs, Checkpoint::together, when_busy, std::move(pick_partners));
}

}  // namespace flockstep::algorithms
