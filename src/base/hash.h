// A 64-bit checksum (FNV-1a): for finding truncated or damaged files and for comparing models, not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flockstep::base {

class Hash {
 public:
  Hash& add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) state_ = (state_ ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3u;
    return *this;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325u;
};

template <typename T>
std::uint64_t hash_of(std::span<T> values) {
  return Hash().add(std::as_bytes(values)).value();
}

}  // namespace flockstep::base
