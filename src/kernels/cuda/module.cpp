#include "kernels/cuda/module.h"

#include <fmt/core.h>

#include <map>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "kernels/cuda/cache.h"
#include "kernels/cuda/compiler.h"
#include "kernels/cuda/shared.h"
#include "kernels/cuda/source.h"

namespace flockstep::kernels::cuda {
namespace {

// As CUdevice_attribute and CUfunction_attribute number them.
constexpr int kMajor = 75, kMinor = 76, kMostDynamicShared = 8;
constexpr int kSharedBytes = 96 * 1024;  // every architecture from sm_80 on has them

int architecture_of(int device) {
  CUdevice handle = 0;
  int major = 0, minor = 0;
  require(driver().cuDeviceGet(&handle, device), fmt::format("open the device cuda:{}", device));
  require(driver().cuDeviceGetAttribute(&major, kMajor, handle), "tell the architecture of a device");
  require(driver().cuDeviceGetAttribute(&minor, kMinor, handle), "tell the architecture of a device");
  return 10 * major + minor;
}

}  // namespace

std::vector<std::string> kernel_names() {
  std::vector<std::string> names = {"end_gram",
                                    "end_direct_statistics",
                                    "judge_statistics",
                                    "end_statistics",
                                    "fill",
                                    "convert",
                                    "scale",
                                    "axpy",
                                    "divide",
                                    "join",
                                    "join_and_swap",
                                    "move_to",
                                    "sum_squares",
                                    "end_square",
                                    "find_non_finite",
                                    "end_sketch",
                                    "scale_bucket"};
  for (const char* type : {"float32", "bfloat16", "float16"})
    for (const char* kernel :
         {"gram_2", "gram_4", "gram_8", "gram_16", "tiles", "statistics", "wide_statistics", "sum", "sketch"})
      names.push_back(fmt::format("{}_{}", kernel, type));
  return names;
}

std::string compiled_kernels(int architecture) {
  const Compiler compiler;
  const Target target = target_for(architecture, compiler.architectures());
  std::string key = fmt::format("{} {}\n{}", compiler.version(), name_of(target), kSource);
  for (const Header& header : source_headers()) key += header.text;
  return cached(cache_folder(), key, [&] { return compiler.compile(kSource, source_headers(), target); });
}

Module::Module(int device, CUcontext context) : device_(device), context_(context) {
  const std::string image = compiled_kernels(architecture_of(device));
  const Current current(context);
  CUmodule module = nullptr;
  require(driver().cuModuleLoadData(&module, image.c_str()), fmt::format("load the kernels on cuda:{}", device));
  for (const std::string& name : kernel_names())
    require(driver().cuModuleGetFunction(&kernels_[name], module, name.c_str()),
            fmt::format("load the kernel {}", name));
  for (const char* name : {"tiles_float32", "tiles_bfloat16", "tiles_float16"})
    require(driver().cuFuncSetAttribute(kernel(name), kMostDynamicShared, kSharedBytes),
            fmt::format("give the kernel {} its shared memory", name));
}

CUfunction Module::kernel(std::string_view name) const {
  const auto found = kernels_.find(name);
  base::check(found != kernels_.end(), "a kernel that kernel_names() lists");
  return found->second;
}

const Module& module_of(int device) {
  // Never unloaded: queues of other threads may outlive every static object.
  static std::mutex& mutex = *new std::mutex;
  static auto& modules = *new std::map<int, std::unique_ptr<Module>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Module>& module = modules[device];
  if (module == nullptr) module = std::make_unique<Module>(device, primary_context(device));
  return *module;
}

}  // namespace flockstep::kernels::cuda
