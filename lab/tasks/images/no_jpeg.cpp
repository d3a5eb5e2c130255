// Stands in for jpeg.cpp in a build without libjpeg.
#include <fmt/core.h>

#include "flockstep/error.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks {

Picture decode_jpeg(std::span<const std::byte> /*file*/, const std::string& name) {
  throw Error(ErrorCode::unavailable,
              fmt::format("{} is a JPEG image, which this build cannot read: build with -DFLOCKSTEP_JPEG=ON", name));
}

}  // namespace flockstep::tasks
