// Stochastic gradient descent: the local optimizer of tasks that have no other.
#pragma once

#include <array>
#include <memory>

#include "base/settings.h"
#include "runtime/layout.h"
#include "train/task.h"

namespace flockstep::tasks {

// The learning rate over a run.
enum class Schedule {
  constant,
  linear,  // falls to zero at the end of the run
  cosine,  // the same along half a wave: slowly at first and at the end
};
inline constexpr std::array<base::Choice<Schedule>, 3> kSchedules{
    {{"linear", Schedule::linear}, {"cosine", Schedule::cosine}, {"constant", Schedule::constant}}};

// g, the gradient, becomes g + weight_decay w; v = momentum v + g, and the model moves by -rate v.
struct DescentOptions {
  double learning_rate = 0.2;
  double momentum = 0.9;
  double weight_decay = 0;
  Schedule schedule = Schedule::constant;
  std::int64_t warmup = 0;  // so many steps in which the rate grows in proportion, before the schedule begins
  std::int64_t steps = 0;   // of the run; 0: unknown, and the rate stays as it is after the warm-up
};

// The rate of step 0, 1, ...
double rate_of(const DescentOptions& options, std::int64_t step);

// Weights in `decaying` decay; as a rule these are not biases, nor what scales a normalised layer.
std::unique_ptr<train::Optimizer> make_descent(const DescentOptions& options, std::size_t parameters,
                                               std::vector<runtime::Range> decaying = {});

}  // namespace flockstep::tasks
