#pragma once

#include "tasks/registry.h"

namespace flockstep::tasks {

std::unique_ptr<train::Task> make_detection(const TaskInputs& inputs);

}  // namespace flockstep::tasks
