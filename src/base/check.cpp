#include "base/check.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

namespace flockstep::base {

void check_failed(std::string_view expectation, const std::source_location& place) {
  fmt::print(stderr, "flockstep: internal error at {}:{}: expected {}\n", place.file_name(), place.line(), expectation);
  std::abort();
}

}  // namespace flockstep::base
