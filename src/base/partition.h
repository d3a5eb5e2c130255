// How n numbers are divided among P owners: consecutive parts whose sizes differ by at most one, larger first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace flockstep::base {

class Partition {
 public:
  Partition(std::size_t total, std::size_t count) : share_(total / count), larger_(total % count) {}

  std::size_t begin(std::size_t part) const { return part * share_ + std::min(part, larger_); }
  std::size_t size(std::size_t part) const { return share_ + (part < larger_ ? 1 : 0); }

  template <typename T>
  std::span<T> of(std::span<T> whole, std::size_t part) const {
    return whole.subspan(begin(part), size(part));
  }

 private:
  std::size_t share_, larger_;
};

}  // namespace flockstep::base
