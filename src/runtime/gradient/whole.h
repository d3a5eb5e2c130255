// The numbers that a layout divides, wherever they lie: in one span, or in several whose borders no bucket crosses, so
// that what somebody else has allocated piece by piece is exchanged in place.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <vector>

#include "base/check.h"
#include "runtime/layout.h"

namespace flockstep::runtime {

// Pieces of memory that count as one behind the other.
class Scattered {
 public:
  void add(std::span<float> piece) {
    begins_.push_back(size_);
    pieces_.push_back(piece);
    size_ += piece.size();
  }
  std::size_t size() const { return size_; }

  // A range inside one piece; an empty one may lie anywhere.
  std::span<float> of(Range range) const {
    if (range.size == 0) return {};
    const auto after = std::ranges::upper_bound(begins_, range.begin);
    base::check(after != begins_.begin(), "a range that begins in a piece");
    const auto index = static_cast<std::size_t>(after - begins_.begin()) - 1;
    const std::size_t offset = range.begin - begins_[index];
    base::check(offset + range.size <= pieces_[index].size(), "a range that does not cross pieces");
    return pieces_[index].subspan(offset, range.size);
  }

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::span<float>> pieces_;
  std::size_t size_ = 0;
};

// A view of either, to be passed by value.
class Whole {
 public:
  template <std::convertible_to<std::span<float>> Numbers>
  Whole(Numbers&& flat) : flat_(flat) {}
  Whole(const Scattered& scattered) : scattered_(&scattered) {}

  std::size_t size() const { return scattered_ ? scattered_->size() : flat_.size(); }
  std::span<float> of(Range range) const { return scattered_ ? scattered_->of(range) : range.of(flat_); }

 private:
  std::span<float> flat_;
  const Scattered* scattered_ = nullptr;
};

}  // namespace flockstep::runtime
