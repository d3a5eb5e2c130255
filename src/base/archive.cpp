#include "base/archive.h"

#include <fmt/core.h>

#include <cstring>
#include <string_view>

#include "base/hash.h"
#include "flockstep/error.h"

// Format, little-endian as on every machine this runs on: magic, then per block {name length, name, size, bytes}, then
// the hash of all that. A block count is not needed: the hash is the last eight bytes.
namespace flockstep::base {
namespace {

constexpr std::string_view kMagic = "flockstep archive 1\n";

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void append_number(std::vector<std::byte>& out, std::uint64_t number) {
  append(out, std::as_bytes(std::span<const std::uint64_t>(&number, 1)));
}

// Takes bytes off the front of a file that may be shorter than it claims.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : rest_(bytes), path_(path) {}

  std::span<const std::byte> take(std::uint64_t size) {
    if (size > rest_.size()) damaged("it ends too early");
    const auto taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::uint64_t take_number() {
    std::uint64_t number;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }
  bool empty() const { return rest_.empty(); }

  [[noreturn]] void damaged(std::string_view why) const {
    throw Error(ErrorCode::bad_file,
                fmt::format("{} is not a whole checkpoint file ({}): delete it or restore it", path_, why));
  }

 private:
  std::span<const std::byte> rest_;
  const std::string& path_;
};

}  // namespace

std::vector<std::byte> Archive::to_bytes() const {
  std::vector<std::byte> out;
  append(out, std::as_bytes(std::span(kMagic)));
  for (const auto& [name, bytes] : blocks_) {
    append_number(out, name.size());
    append(out, std::as_bytes(std::span(name)));
    append_number(out, bytes.size());
    append(out, bytes);
  }
  append_number(out, hash_of(std::span<const std::byte>(out)));
  return out;
}

Archive Archive::from_bytes(std::span<const std::byte> file, const std::string& path) {
  Cursor whole(file, path);
  if (file.size() < kMagic.size() + sizeof(std::uint64_t)) whole.damaged("it is too short");
  Cursor body(whole.take(file.size() - sizeof(std::uint64_t)), path);
  if (hash_of(file.first(file.size() - sizeof(std::uint64_t))) != whole.take_number())
    whole.damaged("its checksum is wrong");
  const auto magic = body.take(kMagic.size());
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) body.damaged("it is of another kind or version");

  Archive archive;
  archive.path_ = path;
  while (!body.empty()) {
    const auto name = body.take(body.take_number());
    const auto bytes = body.take(body.take_number());
    archive.blocks_[std::string(reinterpret_cast<const char*>(name.data()), name.size())].assign(bytes.begin(),
                                                                                                 bytes.end());
  }
  return archive;
}

void Archive::put_block(const std::string& name, std::span<const std::byte> bytes) {
  blocks_[name].assign(bytes.begin(), bytes.end());
}

const std::vector<std::byte>& Archive::block(const std::string& name) const {
  const auto found = blocks_.find(name);
  if (found == blocks_.end())
    throw Error(ErrorCode::bad_file, fmt::format("{} has no {}: it was written by a different run", path_, name));
  return found->second;
}

std::string Archive::get_text(const std::string& name) const {
  const auto& bytes = block(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void Archive::copy_block(const std::string& name, std::span<std::byte> target) const {
  const auto& bytes = block(name);
  if (bytes.size() != target.size())
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has {} bytes of {} where this run needs {}: it was written by a different run", path_,
                            bytes.size(), name, target.size()));
  if (!target.empty()) std::memcpy(target.data(), bytes.data(), target.size());
}

}  // namespace flockstep::base
