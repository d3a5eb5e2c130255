// The kernels of one device, compiled or taken from the cache, and loaded once per process.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/driver.h"

namespace flockstep::kernels::cuda {

// What the kernels are on a device of this architecture (90): a cubin, or PTX. From the cache if it is there.
std::string compiled_kernels(int architecture);
// All that it has.
std::vector<std::string> kernel_names();

class Module {
 public:
  Module(int device, CUcontext context);

  int device() const { return device_; }
  CUcontext context() const { return context_; }
  // The kernel of this name, which exists. All were loaded at the start: nothing waits in the middle of a training.
  CUfunction kernel(std::string_view name) const;

 private:
  int device_;
  CUcontext context_;
  std::map<std::string, CUfunction, std::less<>> kernels_;
};

// Made by the first caller; the others wait for it. Throws Error{unavailable}.
const Module& module_of(int device);

}  // namespace flockstep::kernels::cuda
