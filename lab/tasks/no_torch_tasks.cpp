// Stands in for torch_tasks.cpp in a build without torch.
#include <fmt/core.h>

#include "flockstep/error.h"
#include "tasks/torch_tasks.h"

namespace flockstep::tasks {

bool torch_tasks_are_built() { return false; }

void require_torch_tasks(std::string_view name) {
  throw Error(ErrorCode::unavailable, fmt::format("the task {} needs torch: build with -DFLOCKSTEP_TORCH=ON", name));
}

std::unique_ptr<train::Task> make_torch_task(std::string_view name, const TaskInputs& /*inputs*/) {
  require_torch_tasks(name);
  return nullptr;
}

const TorchGpus& torch_gpus() {
  static const TorchGpus none{0, "this build has no torch"};
  return none;
}

}  // namespace flockstep::tasks
