// Pictures in files of a user's, PNG or JPEG. They may come from anywhere: a picture is refused before memory is
// reserved for more pixels than any camera's that these tasks are for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace flockstep::tasks {

struct Picture {
  std::size_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // row by row, each red, green and blue
};

constexpr std::size_t kMostPixels = std::size_t{1} << 24;

// Which of the two it is, the first bytes tell, not the name. Throws Error{bad_file}, or Error{unavailable} where the
// build cannot read its kind.
Picture read_picture(const std::filesystem::path& path);

// `name` is for sentences, here and below.
Picture decode_picture(std::span<const std::byte> file, const std::string& name);
Picture decode_png(std::span<const std::byte> file, const std::string& name);
Picture decode_jpeg(std::span<const std::byte> file, const std::string& name);

// Refuses what is too large, or empty.
void check_size_of_picture(std::size_t width, std::size_t height, const std::string& name);

}  // namespace flockstep::tasks
