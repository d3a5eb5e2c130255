// Numbers and texts as they go over a wire. Readers never read past the end: what is missing is zero, and is_whole()
// says so.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "engines/engine.h"

namespace flockstep::engines::mesh {

static_assert(std::endian::native == std::endian::little, "numbers go over the wire as they lie in memory");

class WireWriter {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { put_bytes(std::as_bytes(std::span(&value, 1))); }
  void put_bytes(ConstBytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put_text(std::string_view text) {  // at most 65535 bytes
    put(static_cast<std::uint16_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text)));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(ConstBytes bytes) : bytes_(bytes) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    if (const ConstBytes taken = get_bytes(sizeof value); !taken.empty())
      std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  ConstBytes get_bytes(std::size_t size) {
    if (size > bytes_.size()) {
      is_whole_ = false;
      bytes_ = {};
      return {};
    }
    const ConstBytes taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::string get_text(std::size_t most) {
    const std::size_t size = get<std::uint16_t>();
    if (size > most) is_whole_ = false;
    const ConstBytes taken = get_bytes(size);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  bool is_whole() const { return is_whole_; }
  bool is_at_end() const { return is_whole_ && bytes_.empty(); }

 private:
  ConstBytes bytes_;
  bool is_whole_ = true;
};

}  // namespace flockstep::engines::mesh
