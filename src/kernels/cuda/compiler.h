// NVRTC, the compiler of kernels, found and opened at run time.
//
// Looked for in this order: FLOCKSTEP_NVRTC, a path to the library; one that the process has loaded; one that the
// loader finds; the one of PyTorch; and beside the CUDA runtime that the process has loaded. Compiles on machines
// without a GPU.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flockstep::kernels::cuda {

struct Header {
  const char *name, *text;
};

// What a kernel's source is compiled for: an architecture that the compiler knows, or the newest older one, whose PTX
// the driver translates.
struct Target {
  int architecture;  // 90
  bool is_ptx;

  friend bool operator==(const Target&, const Target&) = default;
};
// Throws Error{unavailable} where a GPU is older than all that the compiler knows.
Target target_for(int architecture, std::span<const int> known);
std::string name_of(const Target& target);  // "sm_90", "compute_90"

class Compiler {
 public:
  // Opens the library. Throws Error{unavailable}: there is none, or it cannot be opened.
  Compiler();

  std::string version() const;  // "13.0"
  std::vector<int> architectures() const;
  // A cubin, or PTX. Throws Error{unavailable} with the compiler's own words.
  std::string compile(std::string_view source, std::span<const Header> headers, const Target& target) const;

 private:
  struct Functions;
  const Functions& functions_;
};

}  // namespace flockstep::kernels::cuda
