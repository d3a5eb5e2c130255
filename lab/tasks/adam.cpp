#include "tasks/adam.h"

#include <cmath>

#include "kernels/cpu/kernels.h"

namespace flockstep::tasks {
namespace {

class Adam final : public train::Optimizer {
 public:
  Adam(const AdamOptions& options, std::size_t parameters, std::vector<runtime::Range> decaying)
      : options_(options), decaying_(std::move(decaying)), mean_(parameters), square_(parameters) {
    if (options.weight_decay == 0) decaying_.clear();
  }

  void update(std::span<float> model, std::span<const float> gradient) override {
    const double rate = rate_of(options_.rate, step_++);
    for (const runtime::Range& range : decaying_)
      for (float& weight : range.of(model)) weight *= static_cast<float>(1 - rate * options_.weight_decay);

    const auto updates = static_cast<double>(++updates_);
    const double of_mean = 1 - std::pow(options_.beta1, updates), of_square = 1 - std::pow(options_.beta2, updates);
    const auto beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
    const auto step = static_cast<float>(rate / of_mean), root = static_cast<float>(1 / std::sqrt(of_square));
    const auto epsilon = static_cast<float>(options_.epsilon), scale = scale_of(gradient);
    for (std::size_t i = 0; i < model.size(); ++i) {
      const float g = scale * gradient[i];
      mean_[i] = beta1 * mean_[i] + (1 - beta1) * g;
      square_[i] = beta2 * square_[i] + (1 - beta2) * g * g;
      model[i] -= step * mean_[i] / (std::sqrt(square_[i]) * root + epsilon);
    }
  }
  void skip() override { ++step_; }
  void save(base::Archive& archive) const override {
    archive.put_value("adam step", step_);
    archive.put_value("adam updates", updates_);
    archive.put("adam mean", std::span(mean_));
    archive.put("adam square", std::span(square_));
  }
  void restore(const base::Archive& archive) override {
    step_ = archive.get_value<std::int64_t>("adam step");
    updates_ = archive.get_value<std::int64_t>("adam updates");
    archive.get("adam mean", std::span(mean_));
    archive.get("adam square", std::span(square_));
  }

 private:
  float scale_of(std::span<const float> gradient) const {
    if (options_.clip == 0) return 1;
    const double norm = std::sqrt(kernels::cpu::dot(gradient, gradient));
    return norm > options_.clip ? static_cast<float>(options_.clip / norm) : 1.0f;
  }

  AdamOptions options_;
  std::vector<runtime::Range> decaying_;
  std::int64_t updates_ = 0;  // in the two means
  std::int64_t step_ = 0;     // of the schedule: updates that were skipped count, too
  std::vector<float> mean_, square_;
};

}  // namespace

std::unique_ptr<train::Optimizer> make_adam(const AdamOptions& options, std::size_t parameters,
                                            std::vector<runtime::Range> decaying) {
  return std::make_unique<Adam>(options, parameters, std::move(decaying));
}

}  // namespace flockstep::tasks
