// `post_local_sgd(K, H)`: gradient averaging for K steps, then local SGD with period H. The two phases are `mean` and
// `local_sgd` themselves, one after the other, so that the memory of the first goes when the second begins.
#include "algorithms/averagers/post_local_sgd.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/local_sgd.h"
#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 3> kPostLocalSgdOptions{{
    {"switch_after", "100", "steps with averaged gradients before the first local one (K)"},
    {"period", "8", "from then on, local steps between two averages of the models (H)"},
    kGuardOption,
}};

class PostLocalSgd final : public Algorithm {
 public:
  PostLocalSgd(const AlgorithmInputs& inputs, const PostLocalSgdOptions& options)
      : context_(inputs.context), layout_(inputs.layout), buffers_(inputs.buffers), options_(options) {
    enter_phase();
  }

  void begin(std::int64_t step, std::span<const float> model) override { phase_->begin(step, model); }
  void attend(const std::vector<bool>& present) override {
    present_ = present;
    phase_->attend(present);
  }
  bool gradients_are_equal() const override { return phase_->gradients_are_equal(); }
  void bucket_ready(std::size_t bucket, std::span<float> gradient) override { phase_->bucket_ready(bucket, gradient); }
  void finish_gradient(std::span<float> gradient, double weight) override { phase_->finish_gradient(gradient, weight); }
  std::span<float> reduce_scatter(std::span<float> gradient, double weight) override {
    return phase_->reduce_scatter(gradient, weight);
  }
  void after_update(std::int64_t step, std::span<float> model) override {
    phase_->after_update(step - options_.switch_after, model);
    const bool was_local = is_local();
    steps_ = step + 1;
    if (is_local() == was_local) return;
    earlier_guards_ = phase_->guards();
    earlier_findings_ = phase_->findings();
    enter_phase();
    phase_->begin(steps_ - options_.switch_after, model);
  }

  bool meets_after(std::int64_t step) const override {
    return is_local() && phase_->meets_after(step - options_.switch_after);
  }
  std::vector<math::Finding> findings() override {
    std::vector<math::Finding> findings = earlier_findings_;
    std::ranges::copy(phase_->findings(), std::back_inserter(findings));
    return findings;
  }
  void guard(std::span<float> copy) const override { phase_->guard(copy); }
  // Gradients keep models equal, but not what has no gradient.
  void consolidate(std::span<float> model) override {
    phase_->consolidate(model);
    if (!is_local() && buffers_ > 0)
      average_over_all(context_, runtime::Layout(buffers_, layout_.bucket_floats()), model.last(buffers_), present_);
  }
  void refused() override { phase_->refused(); }
  const GradientReport* report() const override { return phase_->report(); }
  // local_sgd has none of its own.
  GuardCounts guards() const override { return is_local() ? earlier_guards_ : phase_->guards(); }

  void save(base::Archive& archive) const override {
    archive.put_value("post_local_sgd steps", steps_);
    archive.put_value("post_local_sgd guards", guards());
    phase_->save(archive);
  }
  std::string restore(const base::Archive& archive) override {
    steps_ = archive.get_value<std::int64_t>("post_local_sgd steps");
    earlier_guards_ = archive.get_value<GuardCounts>("post_local_sgd guards");
    enter_phase();
    return phase_->restore(archive);
  }

 private:
  bool is_local() const { return steps_ >= options_.switch_after; }
  void enter_phase() {
    phase_.reset();
    const base::Settings settings = is_local() ? base::Settings{{"period", std::to_string(options_.period)},
                                                                {"guard", options_.guard ? "on" : "off"}}
                                               : base::Settings{{"guard", options_.guard ? "2" : "0"}};
    const AlgorithmInputs inputs{.context = context_, .layout = layout_, .settings = settings, .buffers = buffers_};
    if (is_local())
      phase_ = local_sgd_row().make(inputs);
    else if (!options_.guard)
      phase_ = mean_row().make(inputs);
    else  // as local_sgd does with models: cutting alone would let a worker undo two good gradients in every step
      phase_ = std::make_unique<SketchedRule>(inputs, mean_row().rule(settings), Guarding::leaves_out);
    phase_->attend(present_);
  }

  runtime::Context& context_;
  const runtime::Layout& layout_;
  std::size_t buffers_;
  PostLocalSgdOptions options_;
  std::int64_t steps_ = 0;      // local updates so far
  GuardCounts earlier_guards_;  // of the first phase, once it is over
  std::vector<math::Finding> earlier_findings_;
  std::vector<bool> present_;  // empty: everybody
  std::unique_ptr<Algorithm> phase_;
};

}  // namespace

PostLocalSgdOptions post_local_sgd_options(const base::Settings& settings) {
  const base::SettingsReader reader("post_local_sgd", kPostLocalSgdOptions, settings);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return {.switch_after = reader.integer("switch_after", 0, kMost),
          .period = reader.integer("period", 1, kMost),
          .guard = guard_of(reader)};
}

AlgorithmRow post_local_sgd_row() {
  return {
      .name = "post_local_sgd",
      .family = Family::model,
      .description = "average the gradients for K steps, then take H local steps between averages of the models",
      .bytes_text = "8 D (P-1)/P, after K steps 8 D (P-1)/(P H)",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {  // in the long run
            return 8 * parameters * (workers - 1) / workers /
                   static_cast<double>(post_local_sgd_options(settings).period);
          },
      .models_held =
          [](int workers, const base::Settings&) {  // while gradients are averaged
            return mean_row().models_held(workers, {});
          },
      .options = kPostLocalSgdOptions,
      .make =
          [](const AlgorithmInputs& inputs) {
            return make_averager<PostLocalSgd>(inputs, post_local_sgd_options(inputs.settings));
          },
      .check = [](const base::Settings& settings, int) { post_local_sgd_options(settings); },
      .facts =
          [](const base::Settings& settings) {
            Facts facts = local_sgd_facts(post_local_sgd_options(settings).period);
            facts.averages_gradients = true;
            return facts;
          },
  };
}

}  // namespace flockstep::algorithms
