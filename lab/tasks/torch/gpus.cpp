#include "tasks/torch/gpus.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/cuda.h>

#include <filesystem>

#include "kernels/cuda/device.h"

namespace flockstep::tasks {
namespace {

// Nothing of it is used by name, so the linker leaves it out. It lies beside the part of torch that is loaded already.
void load_cuda_of_torch() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(&at::globalContext), &found) == 0) return;
  const auto folder = std::filesystem::path(found.dli_fname).parent_path();
  ::dlopen((folder / "libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

TorchGpus find_gpus() {
  if (const std::string why = kernels::cuda::why_unavailable(); !why.empty()) return {0, why};
  load_cuda_of_torch();
  if (!at::hasCUDA()) return {0, "this torch is built without CUDA: install one that has it, or use the CPU"};
  const auto count = static_cast<int>(torch::cuda::device_count());
  return {count, count > 0
                     ? ""
                     : "torch finds none: check CUDA_VISIBLE_DEVICES and the version of the driver, or use the CPU"};
}

}  // namespace flockstep::tasks
