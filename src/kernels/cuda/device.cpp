#include "kernels/cuda/device.h"

#include <fmt/core.h>

#include <array>

#include "flockstep/error.h"
#include "kernels/cuda/queue.h"

namespace flockstep::kernels::cuda {
namespace {

// As CUpointer_attribute numbers them; and CUmemorytype.
constexpr int kMemoryType = 2, kDeviceOrdinal = 9;
constexpr unsigned kOnDevice = 2;

}  // namespace

int device_count() {
  try {
    int count = 0;
    return driver().cuDeviceGetCount(&count) == kSuccess ? count : 0;
  } catch (const Error&) {
    return 0;
  }
}

std::string why_unavailable() {
  try {
    int count = 0;
    require(driver().cuDeviceGetCount(&count), "count its devices");
    return count > 0 ? "" : "The CUDA driver shows no device to this process: check CUDA_VISIBLE_DEVICES.";
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<Queue> make_queue(int device) {
  return std::make_unique<StreamQueue>(module_of(device), nullptr, true);
}
std::unique_ptr<Queue> make_queue_on(int device, void* stream) {
  return std::make_unique<StreamQueue>(module_of(device), static_cast<CUstream>(stream), false);
}

std::optional<int> device_of(const void* pointer) {
  const Driver* const opened = pointer == nullptr ? nullptr : open_driver();
  if (opened == nullptr) return std::nullopt;
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  unsigned kind = 0;
  int device = 0;
  // Fails for memory that CUDA does not know.
  if (opened->cuPointerGetAttribute(&kind, kMemoryType, address) != kSuccess || kind != kOnDevice) return std::nullopt;
  if (opened->cuPointerGetAttribute(&device, kDeviceOrdinal, address) != kSuccess) return std::nullopt;
  return device;
}

std::string bus_id(int device) {
  CUdevice handle = 0;
  std::array<char, 32> id{};
  require(driver().cuDeviceGet(&handle, device), fmt::format("open the device cuda:{}", device));
  require(driver().cuDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), handle), "tell where a device is");
  return id.data();
}

}  // namespace flockstep::kernels::cuda
