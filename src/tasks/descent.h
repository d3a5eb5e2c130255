// Stochastic gradient descent: the local optimizer of tasks that have no other.
#pragma once

#include <memory>

#include "train/task.h"

namespace flockstep::tasks {

// The learning rate over a run.
enum class Schedule {
  constant,
  linear,  // falls to zero at the end of the run
};

struct DescentOptions {
  double learning_rate = 0.2;
  double momentum = 0.9;  // v = momentum v + g, and the model moves by -rate v
  Schedule schedule = Schedule::constant;
  std::int64_t steps = 0;  // of the run; 0: unknown, and the rate stays as it is
};

std::unique_ptr<train::Optimizer> make_descent(const DescentOptions& options, std::size_t parameters);

}  // namespace flockstep::tasks
