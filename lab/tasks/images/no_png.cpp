// Stands in for png.cpp in a build without libpng.
#include <fmt/core.h>

#include "flockstep/error.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks {

Picture decode_png(std::span<const std::byte> /*file*/, const std::string& name) {
  throw Error(ErrorCode::unavailable,
              fmt::format("{} is a PNG image, which this build cannot read: build with -DFLOCKSTEP_PNG=ON", name));
}

}  // namespace flockstep::tasks
