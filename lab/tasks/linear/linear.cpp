// `linear`: the stochastic linear regression of the AdaCons paper. Predict 0 from x ~ U(0,1)^dim without bias, starting
// at w ~ U(-5,5)^dim; loss 0.5 * mean((x.w)^2); each update takes the gradient G of two accumulated micro-batches and
// the exact line-search step <G,w>/||G||^2, which removes from w all that points along G.
#include "tasks/linear/linear.h"

#include <array>

#include "base/check.h"
#include "base/random.h"
#include "kernels/cpu/kernels.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<base::OptionSpec, 2> kOptions{{
    {"dimension", "1000", "number of weights"},
    {"micro_batches", "2", "gradients accumulated per update"},
}};

LinearOptions options_of(const base::Settings& settings) {
  const base::SettingsReader reader("linear", kOptions, settings);
  return {.dimension = static_cast<std::size_t>(reader.integer("dimension", 1, std::int64_t{1} << 32)),
          .micro_batches = reader.integer("micro_batches", 1, 1000)};
}

class LineSearch final : public train::Optimizer {
 public:
  void update(std::span<float> model, std::span<const float> gradient) override {
    const double along = kernels::cpu::dot(gradient, std::span<const float>(model)),
                 square = kernels::cpu::dot(gradient, gradient);
    if (square > 0) kernels::cpu::axpy(static_cast<float>(-along / square), gradient, model);
  }
};

class Linear final : public train::Task {
 public:
  explicit Linear(const TaskInputs& inputs)
      : options_(options_of(inputs.settings)),
        seed_(inputs.seed),
        rank_(inputs.rank),
        data_rank_(inputs.data_rank),
        samples_(inputs.batch / inputs.workers),
        row_(options_.dimension) {}

  std::size_t parameters() const override { return options_.dimension; }
  std::int64_t samples_per_step() const override { return samples_ * options_.micro_batches; }
  train::Metric metric() const override { return {"loss", true}; }

  void initialise(std::span<float> model) override {
    base::Random(seed_, base::Purpose::initial_model).fill_uniform(model, -5, 5);
  }

  double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                  const RangeReady& ready) override {
    std::ranges::fill(gradient, 0.0f);
    const double share = 1.0 / static_cast<double>(samples_per_step());
    double loss = 0;
    for (std::int64_t part = 0; part < options_.micro_batches; ++part) {
      base::Random random(seed_, base::Purpose::data, static_cast<std::uint32_t>(data_rank_),
                          static_cast<std::uint32_t>(step * options_.micro_batches + part));
      for (std::int64_t sample = 0; sample < samples_; ++sample) {
        random.fill_uniform(row_, 0, 1);
        const double prediction = kernels::cpu::dot(std::span<const float>(row_), model);
        loss += 0.5 * prediction * prediction * share;
        kernels::cpu::axpy(static_cast<float>(prediction * share), std::span<const float>(row_), gradient);
      }
    }
    ready(0, gradient.size());
    return loss;
  }

  std::unique_ptr<train::Optimizer> make_optimizer() override { return std::make_unique<LineSearch>(); }

  // The expectation of the loss over x, in closed form: E[(x.w)^2] = ||w||^2/12 + (sum w)^2/4. Cheap: one worker does
  // it.
  std::vector<double> evaluate(std::span<const float> model, train::Split /*split*/) override {
    if (rank_ != 0) return {};
    double sum = 0, square = 0;
    for (const double w : model) sum += w, square += w * w;
    return {0.5 * (square / 12 + sum * sum / 4)};
  }
  double quality(std::span<const double> records) const override { return records[0]; }

 private:
  LinearOptions options_;
  std::uint64_t seed_;
  int rank_, data_rank_;
  std::int64_t samples_;  // per micro-batch on this worker
  std::vector<float> row_;
};

}  // namespace

TaskRow linear_row() {
  return {
      .name = "linear",
      .description = "stochastic linear regression with an exact line search",
      .metric = "loss, lower is better (its expectation, in closed form)",
      .options = kOptions,
      .defaults = [](const base::Settings&) { return TaskDefaults{.steps = 500, .batch_per_worker = 16}; },
      .make = [](const TaskInputs& inputs) -> std::unique_ptr<train::Task> { return std::make_unique<Linear>(inputs); },
      .check = [](const base::Settings& settings, int) { options_of(settings); },
  };
}

}  // namespace flockstep::tasks
