#include "tasks/torch/gpus.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/cuda.h>

#include <filesystem>

#include "kernels/cuda/device.h"

namespace flockstep::tasks {
namespace {

// Nothing of it is used by name, so the linker leaves it out. It lies beside the part of torch that is loaded already,
// and has to come before the first question about CUDA, whose answer torch keeps. Returns why not.
std::string load_cuda_of_torch() {
  Dl_info torch{};
  if (::dladdr(reinterpret_cast<void*>(&at::globalContext), &torch) == 0) return "";
  const auto library = std::filesystem::path(torch.dli_fname).parent_path() / "libtorch_cuda.so";
  if (!std::filesystem::exists(library)) return "this torch is built without CUDA: install one that has it";
  return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) ? "" : ::dlerror();
}

}  // namespace

TorchGpus find_gpus() {
  if (const std::string why = kernels::cuda::why_unavailable(); !why.empty()) return {0, why};
  if (const std::string why = load_cuda_of_torch(); !why.empty()) return {0, why};
  const int count = at::hasCUDA() ? static_cast<int>(torch::cuda::device_count()) : 0;
  return {count, count > 0 ? "" : "torch finds none: install a torch for this driver's version of CUDA"};
}

}  // namespace flockstep::tasks
