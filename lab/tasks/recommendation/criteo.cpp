#include "tasks/recommendation/criteo.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/hash.h"
#include "tasks/data_file.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kFields = 1 + kCriteoNumbers + kCriteoCategories;
constexpr std::size_t kDigits = 8;  // of a category
constexpr std::size_t kShown = 20;  // characters of a field that a sentence repeats

class Reader {
 public:
  Reader(const std::string& name, const ClickShape& shape) : name_(name), shape_(shape) {}

  void read_line(std::string_view line, Clicks& clicks) {
    ++line_;
    const auto fields = static_cast<std::size_t>(std::ranges::count(line, '\t')) + 1;
    if (fields != kFields)
      refuse(fmt::format("has {} fields instead of {}: a label, {} numbers and {} categories, with tabs between them",
                         fields, kFields, kCriteoNumbers, kCriteoCategories));
    std::size_t number = 0;
    for (std::size_t begin = 0; number < kFields; ++number) {
      const std::size_t end = std::min(line.find('\t', begin), line.size());
      read_field(number, line.substr(begin, end - begin), clicks);
      begin = end + 1;
    }
  }

 private:
  void read_field(std::size_t number, std::string_view field, Clicks& clicks) const {
    if (number == 0)
      clicks.labels.push_back(label_of(field));
    else if (number <= kCriteoNumbers)
      clicks.numbers.push_back(number_of(field));
    else
      clicks.ids.push_back(id_of(number - 1 - kCriteoNumbers, field));
  }

  std::uint8_t label_of(std::string_view field) const {
    if (field != "0" && field != "1") refuse(fmt::format("has the label '{}': it is 0 or 1", shown(field)));
    return field == "1" ? 1 : 0;
  }

  float number_of(std::string_view field) const {
    if (field.empty()) return 0;
    const auto value = parse<std::int64_t>(field, 10);
    if (!value) refuse(fmt::format("has '{}' for a whole number", shown(field)));
    return static_cast<float>(std::log1p(static_cast<double>(std::max<std::int64_t>(0, *value))));
  }

  std::uint32_t id_of(std::size_t table, std::string_view field) const {
    if (field.empty()) return 0;
    const auto value = parse<std::uint32_t>(field, 16);
    if (!value || field.size() > kDigits)
      refuse(fmt::format("has '{}' for a category of up to eight hexadecimal digits", shown(field)));
    const std::uint32_t rows = shape_.rows[table] - 1;
    return rows == 0 ? 0 : 1 + static_cast<std::uint32_t>(base::hash_of(std::span(&*value, 1)) % rows);
  }

  // Nothing where the field is not such a number from its first character to its last.
  template <typename T>
  static std::optional<T> parse(std::string_view field, int radix) {
    T value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, radix);
    if (error != std::errc{} || end != field.data() + field.size()) return std::nullopt;
    return value;
  }

  // A field may hold anything, and so much of it.
  static std::string shown(std::string_view field) {
    std::string text(field.substr(0, kShown));
    for (char& character : text)
      if (character < ' ' || character > '~') character = '?';
    return text + (field.size() > kShown ? "..." : "");
  }

  [[noreturn]] void refuse(const std::string& why) const {
    refuse_file(name_, fmt::format("is not a click log of Criteo, or is damaged: line {} {}", line_, why));
  }

  const std::string& name_;
  const ClickShape& shape_;
  std::size_t line_ = 0;
};

}  // namespace

Clicks read_criteo(std::string_view text, const std::string& name, const ClickShape& shape) {
  base::check(shape.numbers == kCriteoNumbers && shape.categories() == kCriteoCategories, "the shape of such files");
  Clicks clicks;
  Reader reader(name, shape);
  while (!text.empty()) reader.read_line(take_line(text), clicks);
  return clicks;
}

}  // namespace flockstep::tasks
