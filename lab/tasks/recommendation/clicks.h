// Clicks: what is known when something is shown to somebody, in numbers and categories, and whether they clicked.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flockstep::tasks {

struct ClickShape {
  std::size_t numbers = 0;          // of a click
  std::vector<std::uint32_t> rows;  // of the table of each category: ids are below

  std::size_t categories() const { return rows.size(); }
  auto operator<=>(const ClickShape&) const = default;
};

// One click behind the other.
struct Clicks {
  std::vector<float> numbers;
  std::vector<std::uint32_t> ids;
  std::vector<std::uint8_t> labels;   // 1: clicked
  std::vector<double> probabilities;  // that a label is 1, where clicks are generated; else empty

  std::size_t count() const { return labels.size(); }
  std::span<const float> numbers_of(std::size_t click, const ClickShape& shape) const {
    return std::span(numbers).subspan(click * shape.numbers, shape.numbers);
  }
  std::span<const std::uint32_t> ids_of(std::size_t click, const ClickShape& shape) const {
    return std::span(ids).subspan(click * shape.categories(), shape.categories());
  }
  // Appends clicks `first` and so on of another.
  void append(const Clicks& from, std::size_t first, std::size_t count, const ClickShape& shape);
};

}  // namespace flockstep::tasks
