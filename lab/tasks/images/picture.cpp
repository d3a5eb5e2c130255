#include "tasks/images/picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "tasks/data_file.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<std::byte, 4> kPng{std::byte{0x89}, std::byte{'P'}, std::byte{'N'}, std::byte{'G'}};
constexpr std::array<std::byte, 3> kJpeg{std::byte{0xFF}, std::byte{0xD8}, std::byte{0xFF}};

bool begins_with(std::span<const std::byte> file, std::span<const std::byte> bytes) {
  return file.size() >= bytes.size() && std::ranges::equal(file.first(bytes.size()), bytes);
}

}  // namespace

void check_size_of_picture(std::size_t width, std::size_t height, const std::string& name) {
  if (width == 0 || height == 0) refuse_file(name, "has no pixels");
  if (width > kMostPixels || height > kMostPixels / width)
    refuse_file(name, fmt::format("is {} x {} pixels: more than {} are not read", width, height, kMostPixels));
}

Picture decode_picture(std::span<const std::byte> file, const std::string& name) {
  if (begins_with(file, kPng)) return decode_png(file, name);
  if (begins_with(file, kJpeg)) return decode_jpeg(file, name);
  refuse_file(name, "is neither a PNG nor a JPEG image");
}

Picture read_picture(const std::filesystem::path& path) { return decode_picture(read_data_file(path), path.string()); }

}  // namespace flockstep::tasks
