#include "kernels/cuda/compiler.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "flockstep/error.h"

namespace flockstep::kernels::cuda {
namespace {

constexpr std::array kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
constexpr int kOldest = 80;  // which has copies to shared memory that arrive later
constexpr const char* kOverride = "FLOCKSTEP_NVRTC";

[[noreturn]] void fail(const std::string& sentence) { throw Error(ErrorCode::unavailable, sentence); }

void* open_any(int flags) {
  for (const char* name : kNames)
    if (void* const library = ::dlopen(name, RTLD_NOW | flags); library != nullptr) return library;
  return nullptr;
}

// Folders beside a CUDA runtime that the process has loaded, as Python packages lay them out: one folder for all
// libraries (CUDA 13), or one for each (CUDA 12).
int add_folders_of(::dl_phdr_info* info, std::size_t, void* data) {
  const std::filesystem::path path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (path.filename().string().rfind("libcudart.so", 0) != 0) return 0;
  auto& folders = *static_cast<std::vector<std::filesystem::path>*>(data);
  folders.push_back(path.parent_path());
  folders.push_back(path.parent_path().parent_path().parent_path() / "cuda_nvrtc" / "lib");
  return 0;
}

void* open_beside_runtime() {
  std::vector<std::filesystem::path> folders;
  ::dl_iterate_phdr(add_folders_of, &folders);
  for (const auto& folder : folders)
    for (const char* name : kNames)
      if (void* const library = ::dlopen((folder / name).c_str(), RTLD_NOW); library != nullptr) return library;
  return nullptr;
}

void* opened_library() {
  if (const char* path = std::getenv(kOverride); path != nullptr && *path != '\0') {
    if (void* const library = ::dlopen(path, RTLD_NOW); library != nullptr) return library;
    fail(fmt::format("{} names no library that can be opened: {}.", kOverride, ::dlerror()));
  }
  if (void* const library = open_any(RTLD_NOLOAD); library != nullptr) return library;
  if (void* const library = open_any(0); library != nullptr) return library;
  if (::dlopen("libcaffe2_nvrtc.so", RTLD_NOW) != nullptr)
    if (void* const library = open_any(RTLD_NOLOAD); library != nullptr) return library;
  if (void* const library = open_beside_runtime(); library != nullptr) return library;
  fail(
      fmt::format("There is no NVRTC to compile kernels with (libnvrtc was not found): install the Python package "
                  "nvidia-cuda-nvrtc, or name the library in {}.",
                  kOverride));
}

// NVRTC looks for its second half by name only, and does not find it beside itself in a Python package: so it is opened
// here, and then found by that name. Where it is not there, NVRTC will say so.
void open_builtins(void* library, int major, int minor) {
  ::link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map->l_name == nullptr) return;
  const auto folder = std::filesystem::path(map->l_name).parent_path();
  ::dlopen((folder / fmt::format("libnvrtc-builtins.so.{}.{}", major, minor)).c_str(), RTLD_NOW);
}

}  // namespace

struct Compiler::Functions {
  using Result = int;
  using Program = struct ProgramHandle*;

  const char* (*error_string)(Result);
  Result (*version)(int*, int*);
  Result (*architecture_count)(int*);
  Result (*architectures)(int*);
  Result (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  Result (*destroy)(Program*);
  Result (*compile)(Program, int, const char* const*);
  Result (*log_size)(Program, std::size_t*);
  Result (*log)(Program, char*);
  Result (*cubin_size)(Program, std::size_t*);
  Result (*cubin)(Program, char*);
  Result (*ptx_size)(Program, std::size_t*);
  Result (*ptx)(Program, char*);

  Functions() {
    void* const library = opened_library();
    find(library, "nvrtcGetErrorString", error_string);
    find(library, "nvrtcVersion", version);
    find(library, "nvrtcGetNumSupportedArchs", architecture_count);
    find(library, "nvrtcGetSupportedArchs", architectures);
    find(library, "nvrtcCreateProgram", create);
    find(library, "nvrtcDestroyProgram", destroy);
    find(library, "nvrtcCompileProgram", compile);
    find(library, "nvrtcGetProgramLogSize", log_size);
    find(library, "nvrtcGetProgramLog", log);
    find(library, "nvrtcGetCUBINSize", cubin_size);
    find(library, "nvrtcGetCUBIN", cubin);
    find(library, "nvrtcGetPTXSize", ptx_size);
    find(library, "nvrtcGetPTX", ptx);
    int major = 0, minor = 0;
    require(version(&major, &minor), "tell its version");
    open_builtins(library, major, minor);
  }

  template <typename Function>
  static void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    if (function == nullptr)
      fail(
          fmt::format("The NVRTC of this machine is too old for Flockstep (it has no {}): install version 11.2 or "
                      "later.",
                      name));
  }

  void require(Result result, std::string_view action) const {
    if (result != 0) fail(fmt::format("NVRTC cannot {}: {}.", action, error_string(result)));
  }

  std::string text(Program program, Result (*size_of)(Program, std::size_t*), Result (*get)(Program, char*)) const {
    std::size_t size = 0;
    require(size_of(program, &size), "hand over what it made");
    std::string text(size, '\0');
    require(get(program, text.data()), "hand over what it made");
    return text;
  }
};

Compiler::Compiler()
    : functions_([]() -> const Functions& {
        static const Functions opened;
        return opened;
      }()) {}

std::string Compiler::version() const {
  int major = 0, minor = 0;
  functions_.require(functions_.version(&major, &minor), "tell its version");
  return fmt::format("{}.{}", major, minor);
}

std::vector<int> Compiler::architectures() const {
  int count = 0;
  functions_.require(functions_.architecture_count(&count), "tell the architectures that it knows");
  std::vector<int> known(static_cast<std::size_t>(count));
  functions_.require(functions_.architectures(known.data()), "tell the architectures that it knows");
  return known;
}

std::string Compiler::compile(std::string_view source, std::span<const Header> headers, const Target& target) const {
  std::vector<const char*> texts, names;
  for (const Header& header : headers) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  Functions::Program program = nullptr;
  functions_.require(functions_.create(&program, std::string(source).c_str(), "flockstep.cu",
                                       static_cast<int>(headers.size()), texts.data(), names.data()),
                     "take the kernels");
  const std::string architecture = "--gpu-architecture=" + name_of(target);
  // Every operation is rounded on its own; kernels fuse explicitly.
  const std::array options = {architecture.c_str(), "--std=c++17", "--fmad=false",
                              "--device-as-default-execution-space"};
  const int result = functions_.compile(program, static_cast<int>(options.size()), options.data());
  struct Destroyer {
    const Functions& functions;
    Functions::Program& program;
    ~Destroyer() { functions.destroy(&program); }
  } const destroyer{functions_, program};
  if (result != 0)
    fail(fmt::format("NVRTC {} cannot compile the kernels for {} ({}): {}", version(), name_of(target),
                     functions_.error_string(result),
                     functions_.text(program, functions_.log_size, functions_.log).c_str()));
  return target.is_ptx ? functions_.text(program, functions_.ptx_size, functions_.ptx)
                       : functions_.text(program, functions_.cubin_size, functions_.cubin);
}

Target target_for(int architecture, std::span<const int> known) {
  if (architecture < kOldest)
    fail(fmt::format("The kernels need a GPU of architecture sm_{} or later, and this one is sm_{}: use the CPU.",
                     kOldest, architecture));
  if (std::ranges::find(known, architecture) != known.end()) return {architecture, false};
  int newest = 0;
  for (const int each : known)
    if (each < architecture) newest = std::max(newest, each);
  if (newest == 0)
    fail(
        fmt::format("NVRTC does not know the architecture sm_{} of this GPU, which is older than all that it knows: "
                    "install a PyTorch for an earlier CUDA, or use the CPU.",
                    architecture));
  return {newest, true};
}

std::string name_of(const Target& target) {
  return fmt::format("{}_{}", target.is_ptx ? "compute" : "sm", target.architecture);
}

}  // namespace flockstep::kernels::cuda
