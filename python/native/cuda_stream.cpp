#include "native/cuda_stream.h"

#include <dlfcn.h>

#include "base/text.h"
#include "flockstep/flockstep.h"

namespace flockstep::python {
namespace {

using LaunchHostFunction = int (*)(void* stream, void (*function)(void*), void* argument);

// Never closed: the program's own torch uses it, too.
LaunchHostFunction launcher() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver ? reinterpret_cast<LaunchHostFunction>(dlsym(driver, "cuLaunchHostFunc")) : nullptr;
}

}  // namespace

void call_in_stream(std::uintptr_t stream, void (*function)(void*), void* argument) {
  static const LaunchHostFunction launch = launcher();
  if (!launch)
    throw Error(ErrorCode::unavailable, "libcuda.so.1 with cuLaunchHostFunc is needed for gradients on CUDA devices");
  if (const int code = launch(reinterpret_cast<void*>(stream), function, argument); code != 0)
    throw Error(ErrorCode::unavailable, base::concatenated("the CUDA driver refuses a host function: error ", code));
}

}  // namespace flockstep::python
