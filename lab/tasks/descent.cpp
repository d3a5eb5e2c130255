#include "tasks/descent.h"

#include "kernels/cpu/kernels.h"

namespace flockstep::tasks {
namespace {

class Descent final : public train::Optimizer {
 public:
  Descent(const DescentOptions& options, std::size_t parameters, std::vector<runtime::Range> decaying)
      : options_(options), decaying_(std::move(decaying)) {
    if (options.weight_decay == 0) decaying_.clear();
    if (options.momentum > 0 || !decaying_.empty()) velocity_.resize(parameters);
  }

  void update(std::span<float> model, std::span<const float> gradient) override {
    const auto momentum = static_cast<float>(options_.momentum), decay = static_cast<float>(options_.weight_decay);
    for (std::size_t i = 0; i < velocity_.size(); ++i) velocity_[i] = momentum * velocity_[i] + gradient[i];
    for (const runtime::Range& range : decaying_)
      kernels::cpu::axpy(decay, range.of(std::span<const float>(model)), range.of(std::span(velocity_)));
    const auto rate = static_cast<float>(rate_of(options_.rate, step_++));
    kernels::cpu::axpy(-rate, velocity_.empty() ? gradient : std::span<const float>(velocity_), model);
  }
  void skip() override { ++step_; }
  void save(base::Archive& archive) const override {
    archive.put_value("descent step", step_);
    archive.put("velocity", std::span(velocity_));
  }
  void restore(const base::Archive& archive) override {
    step_ = archive.get_value<std::int64_t>("descent step");
    archive.get("velocity", std::span(velocity_));
  }

 private:
  DescentOptions options_;
  std::vector<runtime::Range> decaying_;
  std::int64_t step_ = 0;  // updates so far, and those that were skipped
  std::vector<float> velocity_;
};

}  // namespace

std::unique_ptr<train::Optimizer> make_descent(const DescentOptions& options, std::size_t parameters,
                                               std::vector<runtime::Range> decaying) {
  return std::make_unique<Descent>(options, parameters, std::move(decaying));
}

}  // namespace flockstep::tasks
