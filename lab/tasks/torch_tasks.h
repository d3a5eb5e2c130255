// Tasks whose networks are torch modules. Loading torch takes a quarter of a second, so these tasks are in a shared
// object of their own, which is loaded where one of them is asked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tasks/registry.h"

namespace flockstep::tasks {

// Whether this build has them.
bool torch_tasks_are_built();
// Throws Error{unavailable} where they cannot be had. `name` is for the sentence.
void require_torch_tasks(std::string_view name);
std::unique_ptr<train::Task> make_torch_task(std::string_view name, const TaskInputs& inputs);

// The GPUs that these tasks can use in this process.
struct TorchGpus {
  int count = 0;
  std::string why_none;  // where there are none
};
const TorchGpus& torch_gpus();

// What the shared object exports, under these names; the caller owns the task.
using MakeTorchTask = train::Task*(std::string_view name, const TaskInputs& inputs);
constexpr const char* kMakeTorchTask = "flockstep_make_torch_task";
using FindGpus = void(TorchGpus& found);
constexpr const char* kFindGpus = "flockstep_find_gpus";

}  // namespace flockstep::tasks
