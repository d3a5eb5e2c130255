// `eager_solo` and `eager_majority`: a sum of gradients that does not wait for late ones.
//
// Round t sums what every worker has in its send buffer, over all workers, and G = sum / P. A worker adds its gradient
// to its send buffer when it arrives; a round that runs takes what is there and leaves nothing. So a gradient that
// comes too late is in the next sum, and none is lost. A worker that is behind applies all G since its last update at
// once; one draining round ends a run. Solo: the first worker to arrive starts the round. Majority: one worker, drawn
// for each round, does, so that half of them are there as a rule. Where only n of the P workers have gradients in a
// step, these are sent as P/n times themselves, so that each counts 1/n in whichever sum it is.
//
// A G that is not finite is dropped and counted as it arrives: everybody holds the same bits of it, so everybody drops
// it, and it takes nothing with it of the sums that a worker who is behind has still to apply.
#include "algorithms/rules/eager.h"

#include <algorithm>
#include <array>
#include <optional>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/round_counter.h"
#include "base/check.h"
#include "runtime/gather.h"
#include "runtime/rounds/round_agent.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 0> kEagerOptions{};

// What rounds read and write: gradients to send, those of the round under way, and sums that wait to be applied.
class Gradients final : public runtime::RoundData {
 public:
  Gradients(runtime::Context& context, std::size_t size) : context_(context) {
    base::Memory& memory = context.engine().memory();
    to_send_ = memory.allocate<float>(size, "gradients to send");
    in_round_ = memory.allocate<float>(size, "contribution to a round");
    to_apply_ = memory.allocate<float>(size, "gradients to apply");
  }

  void arrive(std::span<float> gradient) override { context_.queue().move_to(to_send_.span(), gradient); }
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float> gradient) override {
    context_.queue().move_to(gradient, to_apply_.span());
    hand_over();
  }

  void freeze(std::size_t, bool) override {
    std::swap(to_send_, in_round_);
    context_.queue().fill(to_send_.span(), 0);
  }
  std::span<const float> contribution(runtime::Range part) const override { return part.of(in_round_.span()); }
  std::span<float> landing(runtime::Range, std::span<float> spare) override { return spare; }
  void settle(runtime::Range part, std::span<const float> average) override {
    context_.uncharged().copy(part.of(in_round_.span()).data(), average.data(), average.size_bytes());
  }
  void complete(int) override {
    if (is_dropped(in_round_.span())) return;
    context_.queue().move_to(to_apply_.span(), in_round_.span());
  }

  // The draining round, which the worker itself runs between these two; no other is under way.
  void take_last(std::span<float> gradient) {
    context_.uncharged().fill(gradient, 0);
    context_.uncharged().move_to(gradient, to_send_.span());
  }
  void apply_last(std::span<float> gradient) {
    if (is_dropped(gradient)) context_.uncharged().fill(gradient, 0);
    context_.uncharged().move_to(gradient, to_apply_.span());
    hand_over();
  }

  std::span<float> to_send() const { return to_send_.span(); }
  std::span<float> to_apply() const { return to_apply_.span(); }
  std::int64_t dropped() const { return seen_dropped_; }  // as of the worker's last step or drain
  void set_dropped(std::int64_t dropped) { seen_dropped_ = dropped_ = dropped; }

 private:
  bool is_dropped(std::span<const float> average) {
    std::uint32_t found = 0;
    context_.queue().find_non_finite(average, &found);
    dropped_ += found;
    return found != 0;
  }
  void hand_over() { seen_dropped_ = dropped_; }

  runtime::Context& context_;
  base::Buffer<float> to_send_, in_round_, to_apply_;
  std::int64_t dropped_ = 0;       // rounds
  std::int64_t seen_dropped_ = 0;  // the worker's copy
};

class Eager final : public Algorithm {
 public:
  Eager(const AlgorithmInputs& inputs, protocol::Activation activation)
      : context_(inputs.context),
        layout_(inputs.layout),
        models_(inputs.models()),
        gradients_(context_, layout_.size()),
        meetings_(context_) {
    rounds_.workers = rounds_.group_size = context_.size();
    rounds_.sync = protocol::Sync::none;
    rounds_.activation = activation;
    rounds_.seed = inputs.seed;
  }

  void begin(std::int64_t step, std::span<const float>) override {
    rounds_.first = step_ = step;
    agent_.reset();
    agent_ = std::make_unique<runtime::RoundAgent>(context_, rounds_, layout_.size(), layout_.size(), gradients_);
  }

  void attend(const std::vector<bool>& present) override {
    const auto count = std::ranges::count(present, true);
    scale_ = count == 0 ? 1.0f : static_cast<float>(context_.size()) / static_cast<float>(count);
  }

  void finish_gradient(std::span<float> gradient, double) override {
    base::check(agent_ != nullptr, "begin() before the first step");
    kept_.reset();
    if (scale_ != 1) context_.queue().scale(gradient, &scale_);
    meetings_.add(agent_->arrive(step_++, gradient));
    meetings_.add(agent_->take_records());
  }

  // The draining round: everybody waits for everybody.
  bool drain(std::span<float> gradient) override {
    base::check(agent_ != nullptr, "begin() before the end");
    agent_->at_rest([&] { gradients_.take_last(gradient); });
    average_over_all(context_, layout_, gradient);
    agent_->at_rest([&] { gradients_.apply_last(gradient); });
    context_.wait(context_.engine().barrier(), "barrier");  // steps may follow, and nobody's before all are here
    return true;
  }

  bool has_gradients_under_way() override {
    double any = 0;
    const auto is_zero = [](std::span<const float> values) {
      return std::ranges::all_of(values, [](float value) { return value == 0; });
    };
    agent_->at_rest([&] { any = is_zero(gradients_.to_send()) && is_zero(gradients_.to_apply()) ? 0 : 1; });
    return std::ranges::max(runtime::gather_doubles(context_, {&any, 1})) > 0;
  }

  const MeetingReport* meetings() const override { return &meetings_.report(); }
  GuardCounts guards() const override { return {.non_finite = gradients_.dropped()}; }

  // A worker that goes on from here while another one still saves starts a round, which takes what is to be saved: so
  // that is kept as it is, and nobody goes on before everybody has it.
  void consolidate(std::span<float> model) override {
    base::check(agent_ != nullptr, "begin() before the end");
    average_over_all(context_, models_, model);
    agent_->at_rest([&] { kept_.emplace(context_.engine().memory(), gradients_); });
    context_.wait(context_.engine().barrier(), "barrier");
  }

  // After consolidate(), what was kept there. Else nobody may go on before everybody has saved.
  void save(base::Archive& archive) const override {
    archive.put_value("rounds dropped", gradients_.dropped());
    const auto put = [&](std::span<const float> to_send, std::span<const float> to_apply) {
      archive.put("gradients to send", to_send);
      archive.put("gradients to apply", to_apply);
    };
    if (kept_)
      put(kept_->to_send.span(), kept_->to_apply.span());
    else if (agent_)
      agent_->at_rest([&] { put(gradients_.to_send(), gradients_.to_apply()); });
    else
      put(gradients_.to_send(), gradients_.to_apply());
  }
  std::string restore(const base::Archive& archive) override {
    gradients_.set_dropped(archive.get_value<std::int64_t>("rounds dropped"));
    archive.get("gradients to send", gradients_.to_send());
    archive.get("gradients to apply", gradients_.to_apply());
    return "";
  }

 private:
  // Gradients under way when the workers were last at rest, until this one's next step.
  struct Kept {
    Kept(base::Memory& memory, const Gradients& gradients)
        : to_send(memory.allocate<float>(gradients.to_send().size(), "gradients to save")),
          to_apply(memory.allocate<float>(gradients.to_apply().size(), "gradients to save")) {
      std::ranges::copy(gradients.to_send(), to_send.data());
      std::ranges::copy(gradients.to_apply(), to_apply.data());
    }
    base::Buffer<float> to_send, to_apply;
  };

  runtime::Context& context_;
  const runtime::Layout& layout_;
  const runtime::Layout models_;
  protocol::Options rounds_;
  std::int64_t step_ = 0;
  double scale_ = 1;  // of this worker's gradients
  Gradients gradients_;
  RoundCounter meetings_;
  std::optional<Kept> kept_;
  std::unique_ptr<runtime::RoundAgent> agent_;  // last: it uses the others
};

template <protocol::Activation activation>
constexpr std::string_view kName = activation == protocol::Activation::first ? "eager_solo" : "eager_majority";

template <protocol::Activation activation>
AlgorithmRow row(std::string_view description) {
  return {
      .name = kName<activation>,
      .family = Family::partial_gradient,
      .description = description,
      .bytes_text = "8 D (P-1)/P",
      .bytes_per_step = [](int workers, double parameters,
                           const base::Settings&) { return 8 * parameters * (workers - 1) / workers; },
      .models_held = models_held_among_others<5>,
      .options = kEagerOptions,
      .make = [](const AlgorithmInputs& inputs) { return make_averager<Eager>(inputs, activation); },
      .check = [](const base::Settings& settings,
                  int) { base::SettingsReader(kName<activation>, kEagerOptions, settings); },
      .facts =
          [](const base::Settings&) {
            return Facts{.resumes_apart = true, .needs_begin = true};  // with gradients under way of its own
          },
  };
}

}  // namespace

AlgorithmRow eager_solo_row() {
  return row<protocol::Activation::first>("average the gradients that are ready when the first worker arrives");
}
AlgorithmRow eager_majority_row() {
  return row<protocol::Activation::appointed>(
      "average the gradients that are ready when a randomly drawn worker arrives");
}

}  // namespace flockstep::algorithms
