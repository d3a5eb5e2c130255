// Buffers that engines may read or write while a transfer is in flight: aligned, counted by what they are for, and kept
// for ever once a transfer can no longer be waited for.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace flockstep::base {

class Memory;

// `size` numbers of T, aligned to 64 bytes, zeroed. Movable; frees itself unless its Memory was told to keep
// everything.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  std::span<T> span() const { return {data_.get(), size_}; }
  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  friend class Memory;
  Buffer(std::shared_ptr<T> data, std::size_t size) : data_(std::move(data)), size_(size) {}
  std::shared_ptr<T> data_;
  std::size_t size_ = 0;
};

// The buffers of one worker.
class Memory {
 public:
  Memory();

  template <typename T>
  Buffer<T> allocate(std::size_t size, const std::string& purpose) {
    return Buffer<T>(std::static_pointer_cast<T>(allocate_bytes(size * sizeof(T), purpose)), size);
  }

  // Counts memory that somebody else has allocated and keeps it like a buffer of one's own; its alignment is theirs.
  template <typename T>
  Buffer<T> adopt(std::shared_ptr<T> data, std::size_t size, const std::string& purpose) {
    return Buffer<T>(std::static_pointer_cast<T>(adopt_bytes(std::move(data), size * sizeof(T), purpose)), size);
  }

  // Bytes held now, by purpose and in all.
  std::map<std::string, std::size_t> held() const;
  std::size_t held_bytes() const;
  // The most that was ever held.
  std::size_t most_held_bytes() const;

  // After this no buffer is ever freed: a broken engine may have transfers in flight that nobody can cancel.
  void keep_for_ever();

 private:
  struct State;
  std::shared_ptr<void> allocate_bytes(std::size_t bytes, const std::string& purpose);
  std::shared_ptr<void> adopt_bytes(std::shared_ptr<void> data, std::size_t bytes, const std::string& purpose);
  std::shared_ptr<State> state_;
};

}  // namespace flockstep::base
