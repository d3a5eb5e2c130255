#include <fmt/core.h>
#include <png.h>

#include "tasks/data_file.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks {
namespace {

struct PngReader {
  PngReader() { image.version = PNG_IMAGE_VERSION; }
  ~PngReader() { ::png_image_free(&image); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  png_image image{};
};

}  // namespace

Picture decode_png(std::span<const std::byte> file, const std::string& name) {
  PngReader reader;
  png_image& image = reader.image;
  const auto refuse = [&] { refuse_file(name, fmt::format("is no PNG image that can be read: {}", image.message)); };
  if (::png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) refuse();
  check_size_of_picture(image.width, image.height, name);
  image.format = PNG_FORMAT_RGB;
  Picture picture{image.width, image.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  const png_color black{0, 0, 0};  // behind what one can see through
  if (::png_image_finish_read(&image, &black, picture.pixels.data(), 0, nullptr) == 0) refuse();
  return picture;
}

}  // namespace flockstep::tasks
