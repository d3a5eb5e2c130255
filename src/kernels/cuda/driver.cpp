#include "kernels/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <map>
#include <mutex>
#include <optional>

#include "flockstep/error.h"

namespace flockstep::kernels::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

// The names as the library exports them: several have a second version.
std::optional<Driver> functions_of(void* library) {
  Driver d{};
  const bool whole =
      find(library, "cuInit", d.cuInit) && find(library, "cuDeviceGetCount", d.cuDeviceGetCount) &&
      find(library, "cuDeviceGet", d.cuDeviceGet) && find(library, "cuDeviceGetAttribute", d.cuDeviceGetAttribute) &&
      find(library, "cuDeviceGetPCIBusId", d.cuDeviceGetPCIBusId) &&
      find(library, "cuDevicePrimaryCtxRetain", d.cuDevicePrimaryCtxRetain) &&
      find(library, "cuCtxGetCurrent", d.cuCtxGetCurrent) && find(library, "cuCtxSetCurrent", d.cuCtxSetCurrent) &&
      find(library, "cuStreamCreate", d.cuStreamCreate) && find(library, "cuStreamDestroy_v2", d.cuStreamDestroy) &&
      find(library, "cuStreamSynchronize", d.cuStreamSynchronize) &&
      find(library, "cuStreamWaitEvent", d.cuStreamWaitEvent) && find(library, "cuEventCreate", d.cuEventCreate) &&
      find(library, "cuEventRecord", d.cuEventRecord) && find(library, "cuEventQuery", d.cuEventQuery) &&
      find(library, "cuEventDestroy_v2", d.cuEventDestroy) && find(library, "cuLaunchHostFunc", d.cuLaunchHostFunc) &&
      find(library, "cuMemAlloc_v2", d.cuMemAlloc) && find(library, "cuMemFree_v2", d.cuMemFree) &&
      find(library, "cuMemHostAlloc", d.cuMemHostAlloc) && find(library, "cuMemFreeHost", d.cuMemFreeHost) &&
      find(library, "cuMemcpyAsync", d.cuMemcpyAsync) && find(library, "cuMemsetD8Async", d.cuMemsetD8Async) &&
      find(library, "cuModuleLoadData", d.cuModuleLoadData) &&
      find(library, "cuModuleGetFunction", d.cuModuleGetFunction) &&
      find(library, "cuFuncSetAttribute", d.cuFuncSetAttribute) && find(library, "cuLaunchKernel", d.cuLaunchKernel) &&
      find(library, "cuPointerGetAttribute", d.cuPointerGetAttribute) &&
      find(library, "cuGetErrorName", d.cuGetErrorName);
  return whole ? std::optional(d) : std::nullopt;
}

[[noreturn]] void fail(const std::string& sentence) { throw Error(ErrorCode::unavailable, sentence); }

Driver started() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW);
  if (library == nullptr)
    fail(
        fmt::format("There is no CUDA driver on this machine ({} was not found): install NVIDIA's driver, or use the "
                    "CPU.",
                    kLibrary));
  const std::optional<Driver> functions = functions_of(library);
  if (!functions) fail("The CUDA driver of this machine is too old for Flockstep: install one for CUDA 11.2 or later.");
  if (const CUresult result = functions->cuInit(0); result != kSuccess)
    fail(fmt::format("The CUDA driver does not start ({}): check that nvidia-smi shows a GPU, or use the CPU.",
                     name_of(*functions, result)));
  return *functions;
}

}  // namespace

const Driver& driver() {
  static const Driver opened = started();
  return opened;
}

const Driver* open_driver() {
  static std::mutex mutex;
  static std::optional<Driver> found;
  const std::lock_guard lock(mutex);
  if (!found) {
    if (void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD); library != nullptr)
      found = functions_of(library);
  }
  return found ? &*found : nullptr;
}

std::string name_of(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(result, &name) != kSuccess || name == nullptr) return fmt::format("CUDA error {}", result);
  return name;
}

void require(CUresult result, std::string_view action) {
  if (result != kSuccess) fail(fmt::format("CUDA cannot {}: {}.", action, name_of(driver(), result)));
}

CUcontext primary_context(int device) {
  static std::mutex mutex;
  static std::map<int, CUcontext> contexts;
  const std::lock_guard lock(mutex);
  if (const auto known = contexts.find(device); known != contexts.end()) return known->second;
  int count = 0;
  require(driver().cuDeviceGetCount(&count), "count its devices");
  if (device < 0 || device >= count)
    fail(fmt::format("There is no device cuda:{}: this process sees {} of them.", device, count));
  CUdevice handle = 0;
  CUcontext context = nullptr;
  require(driver().cuDeviceGet(&handle, device), fmt::format("open the device cuda:{}", device));
  require(driver().cuDevicePrimaryCtxRetain(&context, handle), fmt::format("open the device cuda:{}", device));
  return contexts[device] = context;
}

Current::Current(CUcontext context, std::nothrow_t) noexcept {
  result_ = driver().cuCtxGetCurrent(&before_);
  if (!holds() || before_ == context) return;
  result_ = driver().cuCtxSetCurrent(context);
  changed_ = holds();
}

Current::Current(CUcontext context) : Current(context, std::nothrow) {
  require(result_, "make the context of a device the current one");
}

Current::~Current() {
  // A thread that had none keeps ours: no other library can have meant anything else.
  if (changed_ && before_ != nullptr) driver().cuCtxSetCurrent(before_);
}

}  // namespace flockstep::kernels::cuda
