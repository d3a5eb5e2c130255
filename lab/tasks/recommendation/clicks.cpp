#include "tasks/recommendation/clicks.h"

namespace flockstep::tasks {
namespace {

template <typename T>
void append_part(std::vector<T>& to, const std::vector<T>& from, std::size_t first, std::size_t count) {
  if (from.empty()) return;
  const auto part = std::span(from).subspan(first, count);
  to.insert(to.end(), part.begin(), part.end());
}

}  // namespace

void Clicks::append(const Clicks& from, std::size_t first, std::size_t count, const ClickShape& shape) {
  append_part(numbers, from.numbers, first * shape.numbers, count * shape.numbers);
  append_part(ids, from.ids, first * shape.categories(), count * shape.categories());
  append_part(labels, from.labels, first, count);
  append_part(probabilities, from.probabilities, first, count);
}

}  // namespace flockstep::tasks
