// IDX files, the format of MNIST and its relatives: arrays of bytes behind a small header, plain or gzip'ed.
//
// A file may come from anywhere: memory grows with what it really holds, never with what its header promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace flockstep::tasks {

struct Idx {
  std::vector<std::size_t> sizes;  // of the dimensions, none of them zero
  std::vector<std::uint8_t> values;
};

// Reads an array of so many dimensions; `name` is for sentences. Throws Error{bad_file}.
Idx read_idx(std::span<const std::byte> file, const std::string& name, std::size_t dimensions);
Idx read_idx(const std::filesystem::path& path, std::size_t dimensions);

}  // namespace flockstep::tasks
