// `mean`: every worker applies (1/P) sum_i g_i, the same bits everywhere. What all others are compared with.
#include "algorithms/mean.h"

#include "math/coefficients.h"
#include "runtime/one_pass.h"

namespace flockstep::algorithms {
namespace {

class Mean final : public Algorithm {
 public:
  explicit Mean(const AlgorithmInputs& inputs)
      : one_pass_(inputs.context, inputs.layout, "received gradient shards"),
        coefficients_(math::mean_coefficients(inputs.context.size())) {}

  void bucket_ready(std::size_t bucket, std::span<float> gradient) override { one_pass_.start(bucket, gradient); }
  void finish_gradient(std::span<float> gradient) override {
    one_pass_.any_started() ? one_pass_.finish(gradient, coefficients_) : one_pass_.run(gradient, coefficients_);
  }
  bool replicas_are_equal() const override { return true; }

 private:
  runtime::OnePass one_pass_;
  std::vector<float> coefficients_;
};

}  // namespace

AlgorithmRow mean_row() {
  return {
      .name = "mean",
      .family = Family::gradient,
      .description = "average the gradients of all workers, every step",
      .bytes_text = "8 D (P-1)/P",
      .bytes_per_step = [](int workers, double parameters,
                           const base::Settings&) { return 8 * parameters * (workers - 1) / workers; },
      .options = {},
      .make = [](const AlgorithmInputs& inputs) -> std::unique_ptr<Algorithm> {
        return std::make_unique<Mean>(inputs);
      },
      .check = [](const base::Settings& settings) { base::SettingsReader("mean", {}, settings); },
  };
}

}  // namespace flockstep::algorithms
