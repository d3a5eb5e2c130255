// `eager_solo` and `eager_majority`: a sum of gradients that does not wait for late ones.
//
// Round t sums what every worker has in its send buffer, over all workers, and G = sum / P. A worker adds its gradient
// to its send buffer when it arrives; a round that runs takes what is there and leaves nothing. So a gradient that
// comes too late is in the next sum, and none is lost. A worker that is behind applies all G since its last update at
// once; one draining round ends a run. Solo: the first worker to arrive starts the round. Majority: one worker, drawn
// for each round, does, so that half of them are there as a rule.
#include "algorithms/eager.h"

#include <algorithm>
#include <array>
#include <optional>

#include "algorithms/average_over_all.h"
#include "algorithms/plain_sgd.h"
#include "algorithms/round_counter.h"
#include "base/check.h"
#include "kernels/merge.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 0> kOptions{};

// What rounds read and write: gradients to send, those of the round under way, and sums that wait to be applied.
class Gradients final : public runtime::RoundData {
 public:
  Gradients(runtime::Context& context, std::size_t size) : context_(context) {
    base::Memory& memory = context.engine().memory();
    to_send_ = memory.allocate<float>(size, "gradients to send");
    in_round_ = memory.allocate<float>(size, "contribution to a round");
    to_apply_ = memory.allocate<float>(size, "gradients to apply");
  }

  void arrive(std::span<float> gradient) override {
    kernels::move_to(to_send_.span(), gradient);
    charge(4);
  }
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float> gradient) override {
    kernels::move_to(gradient, to_apply_.span());
    charge(4);
  }

  void freeze(std::size_t, bool) override {
    std::swap(to_send_, in_round_);
    std::ranges::fill(to_send_.span(), 0.0f);
    charge(1);
  }
  std::span<const float> contribution(runtime::Range part) const override { return part.of(in_round_.span()); }
  std::span<float> landing(runtime::Range, std::span<float> spare) override { return spare; }
  void settle(runtime::Range part, std::span<const float> average) override {
    std::ranges::copy(average, part.of(in_round_.span()).begin());
  }
  void complete(int) override {
    kernels::move_to(to_apply_.span(), in_round_.span());
    charge(4);
  }

  std::span<float> to_send() const { return to_send_.span(); }
  std::span<float> to_apply() const { return to_apply_.span(); }

 private:
  void charge(double sweeps) {
    context_.engine().charge(sweeps * static_cast<double>(to_send_.size() * sizeof(float)));
  }

  runtime::Context& context_;
  base::Buffer<float> to_send_, in_round_, to_apply_;
};

class Eager final : public Algorithm {
 public:
  Eager(const AlgorithmInputs& inputs, protocol::Activation activation)
      : context_(inputs.context), layout_(inputs.layout), gradients_(context_, layout_.size()), meetings_(context_) {
    rounds_.workers = rounds_.group_size = context_.size();
    rounds_.sync = protocol::Sync::none;
    rounds_.activation = activation;
    rounds_.seed = inputs.seed;
  }

  void begin(std::int64_t step, std::span<const float>) override {
    rounds_.first = step_ = step;
    agent_.emplace(context_, rounds_, layout_.size(), layout_.size(), gradients_);
  }

  bool needs_begin() const override { return true; }

  void finish_gradient(std::span<float> gradient, double) override {
    base::check(agent_.has_value(), "begin() before the first step");
    const protocol::Outcome outcome = agent_->arrive(step_++, gradient);
    meetings_.add(outcome, agent_->take_records());
  }

  // The draining round: everybody waits for everybody.
  bool drain(std::span<float> gradient) override {
    base::check(agent_.has_value(), "begin() before the end");
    std::ranges::fill(gradient, 0.0f);
    agent_->at_rest([&] { kernels::move_to(gradient, gradients_.to_send()); });
    average_over_all(context_, layout_, gradient);
    agent_->at_rest([&] { kernels::move_to(gradient, gradients_.to_apply()); });
    context_.wait(context_.engine().barrier(), "barrier");  // steps may follow, and nobody's before all are here
    return true;
  }

  bool replicas_are_equal() const override { return false; }
  bool resumes_apart() const override { return true; }  // with gradients under way of its own
  void consolidate(std::span<float> model) override { average_over_all(context_, layout_, model); }
  const MeetingReport* meetings() const override { return &meetings_.report(); }

  // At rest the agent touches nothing, and what it did before it has handed over with its last answer.
  void save(base::Archive& archive) const override {
    archive.put("gradients to send", gradients_.to_send());
    archive.put("gradients to apply", gradients_.to_apply());
  }
  std::string restore(const base::Archive& archive) override {
    archive.get("gradients to send", gradients_.to_send());
    archive.get("gradients to apply", gradients_.to_apply());
    return "";
  }

 private:
  runtime::Context& context_;
  const runtime::Layout& layout_;
  protocol::Options rounds_;
  std::int64_t step_ = 0;
  Gradients gradients_;
  RoundCounter meetings_;
  std::optional<runtime::RoundAgent> agent_;  // last: it uses the others
};

template <protocol::Activation activation>
AlgorithmRow row(std::string_view name, std::string_view description) {
  return {
      .name = name,
      .family = Family::partial_gradient,
      .description = description,
      .bytes_text = "8 D (P-1)/P",
      .bytes_per_step = [](int workers, double parameters,
                           const base::Settings&) { return 8 * parameters * (workers - 1) / workers; },
      .options = kOptions,
      .make = [](const AlgorithmInputs& inputs) -> std::unique_ptr<Algorithm> {
        if (inputs.context.size() == 1) return std::make_unique<PlainSgd>();
        return std::make_unique<Eager>(inputs, activation);
      },
      .check = [](const base::Settings& settings, int) { base::SettingsReader("eager", kOptions, settings); },
  };
}

}  // namespace

AlgorithmRow eager_solo_row() {
  return row<protocol::Activation::first>("eager_solo",
                                          "average the gradients that are there when the first worker arrives");
}
AlgorithmRow eager_majority_row() {
  return row<protocol::Activation::appointed>("eager_majority",
                                              "average the gradients that are there when a drawn worker arrives");
}

}  // namespace flockstep::algorithms
