#pragma once

#include "tasks/registry.h"

namespace flockstep::tasks {

std::unique_ptr<train::Task> make_navigation(const TaskInputs& inputs);

}  // namespace flockstep::tasks
