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

struct SharedObject {
  MakeTorchTask* make;
  FindGpus* find_gpus;
};

// Never unloaded: torch has threads and statics that do not survive it.
SharedObject load() {
  const path found = find_shared_object();
  void* const handle = ::dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error(ErrorCode::unavailable, fmt::format("the tasks that need torch cannot be loaded: {}", ::dlerror()));
  const auto function = [&](const char* name) {
    void* const address = ::dlsym(handle, name);
    if (!address)
      throw Error(ErrorCode::unavailable, fmt::format("{} is of another version: install again", found.string()));
    return address;
  };
  return {reinterpret_cast<MakeTorchTask*>(function(kMakeTorchTask)), reinterpret_cast<FindGpus*>(function(kFindGpus))};
}

const SharedObject& loaded() {
  static const SharedObject object = load();
  return object;
}

}  // namespace

bool torch_tasks_are_built() { return true; }

void require_torch_tasks(std::string_view /*name*/) { loaded(); }

std::unique_ptr<train::Task> make_torch_task(std::string_view name, const TaskInputs& inputs) {
  return std::unique_ptr<train::Task>(loaded().make(name, inputs));
}

const TorchGpus& torch_gpus() {
  static const TorchGpus gpus = [] {
    TorchGpus found;
    loaded().find_gpus(found);
    return found;
  }();
  return gpus;
}

}  // namespace flockstep::tasks
