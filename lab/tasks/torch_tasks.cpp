#include "tasks/torch_tasks.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "base/files.h"
#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

using std::filesystem::path;

// Both places are relative to the executable, so that a tree may be moved: see src/CMakeLists.txt.
path find_shared_object() {
  const path here = base::folder_of_this_executable();
  for (const char* place : {FLOCKSTEP_TORCH_TASKS_WHEN_BUILT, FLOCKSTEP_TORCH_TASKS_WHEN_INSTALLED})
    if (const path candidate = (here / place).lexically_normal(); std::filesystem::exists(candidate)) return candidate;
  throw Error(ErrorCode::unavailable,
              fmt::format("the tasks that need torch are not in {}: install again",
                          (here / FLOCKSTEP_TORCH_TASKS_WHEN_INSTALLED).lexically_normal().string()));
}

// Never unloaded: torch has threads and statics that do not survive it.
MakeTorchTask* load() {
  const path found = find_shared_object();
  void* const handle = ::dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error(ErrorCode::unavailable, fmt::format("the tasks that need torch cannot be loaded: {}", ::dlerror()));
  void* const function = ::dlsym(handle, kMakeTorchTask);
  if (!function)
    throw Error(ErrorCode::unavailable, fmt::format("{} is of another version: install again", found.string()));
  return reinterpret_cast<MakeTorchTask*>(function);
}

MakeTorchTask* loaded() {
  static MakeTorchTask* const make = load();
  return make;
}

}  // namespace

bool torch_tasks_are_built() { return true; }

void require_torch_tasks(std::string_view /*name*/) { loaded(); }

std::unique_ptr<train::Task> make_torch_task(std::string_view name, const TaskInputs& inputs) {
  return std::unique_ptr<train::Task>(loaded()(name, inputs));
}

}  // namespace flockstep::tasks
