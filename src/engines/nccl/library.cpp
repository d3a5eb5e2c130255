#include "engines/nccl/library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "flockstep/error.h"

namespace flockstep::engines::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr int kSuccess = 0;

template <typename Function>
void find(void* handle, const char* name, Function& function, bool is_needed = true) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function && is_needed)
    throw Error(ErrorCode::unavailable, fmt::format("{} has no {}: NCCL 2.7 or later is needed", kName, name));
}

// Never closed: the program's own torch uses it, too.
Library opened() {
  void* handle = dlopen(kName, RTLD_NOW | RTLD_NOLOAD);
  if (!handle) handle = dlopen(kName, RTLD_NOW);
  if (!handle)
    throw Error(ErrorCode::unavailable,
                fmt::format("NCCL ({}) is needed to exchange gradients between GPUs, and was not found: install "
                            "nvidia-nccl, or add its folder to LD_LIBRARY_PATH",
                            kName));
  Library library;
  find(handle, "ncclGetUniqueId", library.get_unique_id);
  find(handle, "ncclCommInitRank", library.init);
  find(handle, "ncclCommDestroy", library.destroy);
  find(handle, "ncclCommAbort", library.abort);
  find(handle, "ncclCommGetAsyncError", library.async_error);
  find(handle, "ncclGetErrorString", library.error_text);
  find(handle, "ncclGetLastError", library.last_error, false);
  find(handle, "ncclGroupStart", library.group_begin);
  find(handle, "ncclGroupEnd", library.group_end);
  find(handle, "ncclSend", library.send);
  find(handle, "ncclRecv", library.receive);
  return library;
}

}  // namespace

const Library& library() {
  static const Library library = opened();
  return library;
}

void check(int result, const char* what) {
  if (result == kSuccess) return;
  const char* const last = library().last_error ? library().last_error(nullptr) : "";
  throw Error(ErrorCode::unavailable,
              fmt::format("{}: {}{}{} (NCCL_DEBUG=WARN tells more)", what, library().error_text(result),
                          last && *last ? ": " : "", last ? last : ""),
              "nccl");
}

}  // namespace flockstep::engines::nccl
