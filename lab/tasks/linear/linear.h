#pragma once

#include "tasks/registry.h"

namespace flockstep::tasks {

struct LinearOptions {
  std::size_t dimension = 1000;
  std::int64_t micro_batches = 2;  // gradients accumulated per update
};

TaskRow linear_row();

}  // namespace flockstep::tasks
