#include "tasks/images/idx.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tasks/data_file.h"

namespace flockstep::tasks {
namespace {

constexpr std::uint32_t kBytes = 0x0800;              // the magic number of an array of bytes, less its dimensions
constexpr std::size_t kMost = std::size_t{1} << 30;   // values in a file: far beyond any set that this task is for
constexpr std::size_t kPiece = std::size_t{1} << 20;  // read at a time

// The bytes of a file in order, unpacked where it is gzip'ed.
class Source {
 public:
  Source(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {
    is_packed_ = file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (is_packed_ && ::inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() {
    if (is_packed_) ::inflateEnd(&stream_);
  }

  // Fills `target` as far as there are bytes; returns how many there were.
  std::size_t read(std::span<std::uint8_t> target) { return is_packed_ ? unpack(target) : copy(target); }

 private:
  std::size_t copy(std::span<std::uint8_t> target) {
    const std::size_t size = std::min(target.size(), file_.size());
    if (size > 0) std::memcpy(target.data(), file_.data(), size);
    file_ = file_.subspan(size);
    return size;
  }

  std::size_t unpack(std::span<std::uint8_t> target) {
    base::check(target.size() <= kPiece, "a piece that zlib can count");
    stream_.next_out = target.data();
    stream_.avail_out = static_cast<uInt>(target.size());
    while (stream_.avail_out > 0 && !ended_) {
      const std::size_t offered = std::min<std::size_t>(file_.size(), std::numeric_limits<uInt>::max());
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file_.data()));  // zlib does not write there
      stream_.avail_in = static_cast<uInt>(offered);
      const int code = ::inflate(&stream_, Z_NO_FLUSH);
      file_ = file_.subspan(offered - stream_.avail_in);
      if (code == Z_MEM_ERROR) throw std::bad_alloc();
      if (code == Z_BUF_ERROR) refuse_file(name_, "is cut short: its gzip data has no end");
      if (code != Z_OK && code != Z_STREAM_END) refuse_file(name_, "is not gzip data that can be read: it is damaged");
      ended_ = code == Z_STREAM_END;
      if (ended_ && !file_.empty()) refuse_file(name_, "goes on after the end of its gzip data");
    }
    return target.size() - stream_.avail_out;
  }

  std::span<const std::byte> file_;  // what is left of it
  const std::string& name_;
  bool is_packed_ = false, ended_ = false;
  z_stream stream_{};
};

std::uint32_t read_number(Source& source, const std::string& name) {
  std::array<std::uint8_t, 4> bytes;
  if (source.read(bytes) < bytes.size()) refuse_file(name, "is cut short: it ends within its header");
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

Idx read_idx(std::span<const std::byte> file, const std::string& name, std::size_t dimensions) {
  if (file.empty()) refuse_file(name, "is empty");
  Source source(file, name);
  const std::uint32_t magic = read_number(source, name), wanted = kBytes + static_cast<std::uint32_t>(dimensions);
  if (magic != wanted)
    refuse_file(name,
                fmt::format("is not an IDX file of bytes in {} dimension{}: it begins with {:#010x}, not {:#010x}",
                            dimensions, dimensions == 1 ? "" : "s", magic, wanted));
  Idx idx;
  std::size_t total = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::size_t size = read_number(source, name);
    if (size == 0) refuse_file(name, "holds nothing: one of its dimensions is 0");
    if (size > kMost / total)
      refuse_file(name, fmt::format("claims to hold more than {} bytes: its header is wrong", kMost));
    total *= size;
    idx.sizes.push_back(size);
  }
  for (bool more = true; more;) {
    const std::size_t before = idx.values.size(), wish = std::min(kPiece, total - before + 1);  // 1: to see the end
    idx.values.resize(before + wish);
    const std::size_t got = source.read(std::span(idx.values).subspan(before));
    idx.values.resize(before + got);
    more = got == wish && idx.values.size() <= total;
  }
  if (idx.values.size() < total)
    refuse_file(
        name, fmt::format("is cut short: it holds {} of the {} bytes that its header names", idx.values.size(), total));
  if (idx.values.size() > total)
    refuse_file(name, fmt::format("holds more than the {} bytes that its header names", total));
  return idx;
}

Idx read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  return read_idx(read_data_file(path), path.string(), dimensions);
}

}  // namespace flockstep::tasks
