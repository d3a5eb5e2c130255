// What the shared object of the torch tasks gives to lab/tasks/torch_tasks.cpp.
#include <array>

#include "base/names.h"
#include "tasks/torch/detection.h"
#include "tasks/torch/gpus.h"
#include "tasks/torch/navigation.h"
#include "tasks/torch/recommendation.h"
#include "tasks/torch/translation.h"
#include "tasks/torch/vision.h"
#include "tasks/torch_tasks.h"

namespace flockstep::tasks {
namespace {

struct Maker {
  std::string_view name;
  std::unique_ptr<train::Task> (*make)(const TaskInputs& inputs);
};
constexpr std::array<Maker, 5> kMakers{{
    {"detection", make_detection},
    {"navigation", make_navigation},
    {"recommendation", make_recommendation},
    {"translation", make_translation},
    {"vision", make_vision},
}};

}  // namespace
}  // namespace flockstep::tasks

extern "C" flockstep::train::Task* flockstep_make_torch_task(std::string_view name,
                                                             const flockstep::tasks::TaskInputs& inputs) {
  using namespace flockstep;
  return base::find_by_name(std::span<const tasks::Maker>(tasks::kMakers), name, "task").make(inputs).release();
}

extern "C" void flockstep_find_gpus(flockstep::tasks::TorchGpus& found) { found = flockstep::tasks::find_gpus(); }
