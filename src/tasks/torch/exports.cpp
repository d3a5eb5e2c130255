// What the shared object of the torch tasks gives to src/tasks/torch_tasks.cpp.
#include "base/check.h"
#include "tasks/torch/vision.h"
#include "tasks/torch_tasks.h"

extern "C" flockstep::train::Task* flockstep_make_torch_task(std::string_view name,
                                                             const flockstep::tasks::TaskInputs& inputs) {
  flockstep::base::check(name == "vision", "a task that needs torch");
  return flockstep::tasks::make_vision(inputs).release();
}
