#include "tasks/descent.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace flockstep::tasks {
namespace {

class Descent final : public train::Optimizer {
 public:
  Descent(const DescentOptions& options, std::size_t parameters)
      : options_(options), velocity_(options.momentum > 0 ? parameters : 0) {}

  void update(std::span<float> model, std::span<const float> gradient) override {
    const auto momentum = static_cast<float>(options_.momentum);
    for (std::size_t i = 0; i < velocity_.size(); ++i) velocity_[i] = momentum * velocity_[i] + gradient[i];
    kernels::axpy(-rate(), velocity_.empty() ? gradient : std::span<const float>(velocity_), model);
    ++step_;
  }
  void save(base::Archive& archive) const override {
    archive.put_value("descent step", step_);
    archive.put("velocity", std::span(velocity_));
  }
  void restore(const base::Archive& archive) override {
    step_ = archive.get_value<std::int64_t>("descent step");
    archive.get("velocity", std::span(velocity_));
  }

 private:
  float rate() const {
    if (options_.schedule == Schedule::constant || options_.steps == 0)
      return static_cast<float>(options_.learning_rate);
    const double left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
    return static_cast<float>(options_.learning_rate * left / static_cast<double>(options_.steps));
  }

  DescentOptions options_;
  std::int64_t step_ = 0;  // updates so far
  std::vector<float> velocity_;
};

}  // namespace

std::unique_ptr<train::Optimizer> make_descent(const DescentOptions& options, std::size_t parameters) {
  return std::make_unique<Descent>(options, parameters);
}

}  // namespace flockstep::tasks
