// The CUDA driver, opened at run time: the functions that are used here, under their own names.
//
// No CUDA header is needed: handles are pointers. Nothing here keeps state but the library itself, which stays open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>

namespace flockstep::kernels::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;

constexpr CUresult kSuccess = 0, kOutOfMemory = 2, kNotReady = 600;

struct Driver {
  CUresult (*cuInit)(unsigned);
  CUresult (*cuDeviceGetCount)(int*);
  CUresult (*cuDeviceGet)(CUdevice*, int);
  CUresult (*cuDeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*cuDeviceGetPCIBusId)(char*, int, CUdevice);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxSetCurrent)(CUcontext);
  CUresult (*cuStreamCreate)(CUstream*, unsigned);
  CUresult (*cuStreamDestroy)(CUstream);
  CUresult (*cuStreamSynchronize)(CUstream);
  CUresult (*cuStreamWaitEvent)(CUstream, CUevent, unsigned);
  CUresult (*cuEventCreate)(CUevent*, unsigned);
  CUresult (*cuEventRecord)(CUevent, CUstream);
  CUresult (*cuEventQuery)(CUevent);
  CUresult (*cuEventDestroy)(CUevent);
  CUresult (*cuLaunchHostFunc)(CUstream, void (*)(void*), void*);
  CUresult (*cuMemAlloc)(CUdeviceptr*, std::size_t);
  CUresult (*cuMemFree)(CUdeviceptr);
  CUresult (*cuMemHostAlloc)(void**, std::size_t, unsigned);
  CUresult (*cuMemFreeHost)(void*);
  CUresult (*cuMemcpyAsync)(CUdeviceptr, CUdeviceptr, std::size_t, CUstream);
  CUresult (*cuMemsetD8Async)(CUdeviceptr, unsigned char, std::size_t, CUstream);
  CUresult (*cuModuleLoadData)(CUmodule*, const void*);
  CUresult (*cuModuleGetFunction)(CUfunction*, CUmodule, const char*);
  CUresult (*cuFuncSetAttribute)(CUfunction, int, int);
  CUresult (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                             void**, void**);
  CUresult (*cuPointerGetAttribute)(void*, int, CUdeviceptr);
  CUresult (*cuGetErrorName)(CUresult, const char**);
};

// Opens the driver when first asked, and starts it. Throws Error{unavailable}: no driver, or it does not start.
const Driver& driver();
// The driver if somebody in this process has opened it already; else null.
const Driver* open_driver();

// "CUDA_ERROR_OUT_OF_MEMORY".
std::string name_of(const Driver& driver, CUresult result);
// Throws Error{unavailable} in one sentence unless it is a success; `action` as in "launch the kernel fill".
void require(CUresult result, std::string_view action);

// The device's primary context, which is PyTorch's too. It is kept until the process ends.
CUcontext primary_context(int device);

// Makes a context the thread's current one for as long as it lives; then the one before it is again.
class Current {
 public:
  explicit Current(CUcontext context);
  // For destructors, which may run when the driver has gone already: `holds()` is false then.
  Current(CUcontext context, std::nothrow_t) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  bool holds() const { return result_ == kSuccess; }

 private:
  CUresult result_ = kSuccess;
  CUcontext before_ = nullptr;
  bool changed_ = false;
};

}  // namespace flockstep::kernels::cuda
