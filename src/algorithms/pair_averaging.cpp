#include "algorithms/pair_averaging.h"

#include <spdlog/logger.h>

#include <utility>

#include "runtime/one_pass.h"

namespace flockstep::algorithms {
namespace {

using runtime::PairAgent;

class PairAveraging final : public Algorithm {
 public:
  PairAveraging(const AlgorithmInputs& inputs, PairAgent::WhenBusy when_busy, PickPartners pick_partners)
      : context_(inputs.context),
        layout_(inputs.layout),
        when_busy_(when_busy),
        pick_partners_(std::move(pick_partners)) {}

  void begin(std::int64_t, std::span<const float> model) override {
    if (is_alone()) return;
    if (agent_)
      agent_->adopt(model);
    else
      agent_ = std::make_unique<PairAgent>(context_, layout_, when_busy_, model);
  }

  // Without a begin the shared model starts as the first one that there is.
  void after_update(std::int64_t step, std::span<float> model) override {
    if (is_alone()) {
      ++report_.alone;
      return;
    }
    if (!agent_) begin(step, model);
    agent_->merge(model, pick_partners_(step));
    take_counts();
  }

  bool replicas_are_equal() const override { return false; }

  // The second barrier keeps those who go on from averaging with a model that is about to be replaced.
  void consolidate(std::span<float> model) override {
    if (is_alone()) return;
    if (!agent_) begin(0, model);
    agent_->come_to_rest(model);
    take_counts();
    context_.log().info("took part in {} averages; {} that it wished for found nobody free", agent_->counts().averages,
                        agent_->counts().skipped);
    runtime::OnePass(context_, layout_, "received model shards").average(model);
    agent_->adopt(model);
    context_.wait(context_.engine().barrier(), "barrier");
  }

  const MeetingReport* meetings() const override { return &report_; }

 private:
  bool is_alone() const { return context_.size() == 1; }

  // An average always takes the newest x there is, so whoever finds a new one has met others freshly.
  void take_counts() {
    const PairAgent::Counts& counts = agent_->counts();
    report_.fresh = counts.met;
    report_.alone = counts.alone;
    report_.round_s = counts.under_way_s;
  }

  runtime::Context& context_;
  const runtime::Layout& layout_;
  const PairAgent::WhenBusy when_busy_;
  const PickPartners pick_partners_;
  MeetingReport report_;
  std::unique_ptr<PairAgent> agent_;
};

}  // namespace

std::unique_ptr<Algorithm> make_pair_averaging(const AlgorithmInputs& inputs, PairAgent::WhenBusy when_busy,
                                               PickPartners pick_partners) {
  return std::make_unique<PairAveraging>(inputs, when_busy, std::move(pick_partners));
}

}  // namespace flockstep::algorithms
