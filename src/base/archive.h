// Named blocks of bytes with a checksum: the body of a checkpoint. Reading refuses anything truncated or changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "base/files.h"

namespace flockstep::base {

class Archive {
 public:
  template <typename T>
  void put(const std::string& name, std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_block(name, std::as_bytes(values));
  }
  template <typename T>
  void put_value(const std::string& name, const T& value) {
    put(name, std::span<const T>(&value, 1));
  }

  // Copies the block `name` into `values`; throws Error{bad_file} unless it is there and of exactly that size.
  template <typename T>
  void get(const std::string& name, std::span<T> values) const {
    static_assert(std::is_trivially_copyable_v<T>);
    copy_block(name, std::as_writable_bytes(values));
  }
  template <typename T>
  T get_value(const std::string& name) const {
    T value;
    get(name, std::span<T>(&value, 1));
    return value;
  }

  // A block of any length that is a multiple of T's; throws Error{bad_file} otherwise.
  template <typename T>
  std::vector<T> get_vector(const std::string& name) const {
    std::vector<T> values(size_of(name) / sizeof(T));
    get(name, std::span<T>(values));
    return values;
  }

  void put_text(const std::string& name, const std::string& text) { put(name, std::span(text)); }
  std::string get_text(const std::string& name) const;
  bool has(const std::string& name) const { return blocks_.contains(name); }

  // As a file holds it; `name` stands for that in sentences.
  std::vector<std::byte> to_bytes() const;
  static Archive from_bytes(std::span<const std::byte> bytes, const std::string& name);

 private:
  void put_block(const std::string& name, std::span<const std::byte> bytes);
  const std::vector<std::byte>& block(const std::string& name) const;
  std::size_t size_of(const std::string& name) const { return block(name).size(); }
  void copy_block(const std::string& name, std::span<std::byte> target) const;

  std::map<std::string, std::vector<std::byte>> blocks_;
  std::string path_ = "an archive in memory";  // for sentences
};

}  // namespace flockstep::base
