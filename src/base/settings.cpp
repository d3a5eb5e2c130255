#include "base/settings.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/names.h"

namespace flockstep::base {
namespace {

// The number that is the whole of `text`.
std::optional<double> number_in(std::string_view text) {
  double value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `Number` parsed from the whole of `text` and inside [least, most], or the sentence that says what is allowed.
template <typename Number>
Number parse(std::string_view what, std::string_view text, std::string_view kind, Number least, Number most) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc{} && end == text.data() + text.size();
  if (whole && value >= least && value <= most) return value;
  const std::string allowed = most == std::numeric_limits<Number>::max() ? fmt::format("at least {}", least)
                                                                         : fmt::format("from {} to {}", least, most);
  throw Error(ErrorCode::bad_input, fmt::format("{} takes {} {}, not '{}'", what, kind, allowed, text));
}

}  // namespace

std::int64_t parse_integer(std::string_view what, std::string_view text, std::int64_t least, std::int64_t most) {
  return parse<std::int64_t>(what, text, "a whole number", least, most);
}

double parse_real(std::string_view what, std::string_view text, double least, double most) {
  return parse<double>(what, text, "a number", least, most);
}

Duration parse_duration(std::string_view what, std::string_view text) {
  for (const auto& [unit, seconds] : {std::pair<std::string_view, double>{"ms", 1e-3}, {"us", 1e-6}, {"s", 1.0}}) {
    if (!text.ends_with(unit)) continue;
    return Duration(seconds * parse_real(what, text.substr(0, text.size() - unit.size()), 0, 1e9));
  }
  throw Error(ErrorCode::bad_input, fmt::format("{} takes a time such as 320ms, 1.5s or 50us, not '{}'", what, text));
}

SettingsReader::SettingsReader(std::string_view owner, std::span<const OptionSpec> specs, const Settings& settings)
    : owner_(owner), specs_(specs), settings_(settings) {
  for (const auto& [name, value] : settings) find_by_name(specs_, name, fmt::format("option of {}", owner));
}

bool SettingsReader::yes_no(std::string_view name) const {
  constexpr std::array<Choice<bool>, 2> kWords{{{"yes", true}, {"no", false}}};
  return choice(name, kWords);
}

std::string SettingsReader::text(std::string_view name) const {
  const OptionSpec& spec = find_by_name(specs_, name, "option");
  const auto given = settings_.find(name);
  return given == settings_.end() ? std::string(spec.default_value) : given->second;
}

std::int64_t SettingsReader::integer(std::string_view name, std::int64_t least, std::int64_t most) const {
  return parse_integer(fmt::format("--{}.{}", owner_, name), text(name), least, most);
}

double SettingsReader::real(std::string_view name, double least, double most) const {
  return parse_real(fmt::format("--{}.{}", owner_, name), text(name), least, most);
}

double SettingsReader::below_one(std::string_view name) const {
  const std::string given = text(name), what = fmt::format("--{}.{}", owner_, name);
  if (const auto value = number_in(given); value && *value >= 0 && *value < 1) return *value;
  throw Error(ErrorCode::bad_input, fmt::format("{} takes a number from 0 to below 1, not '{}'", what, given));
}

Duration SettingsReader::duration(std::string_view name) const {
  return parse_duration(fmt::format("--{}.{}", owner_, name), text(name));
}

double SettingsReader::positive(std::string_view name) const {
  const std::string given = text(name), what = fmt::format("--{}.{}", owner_, name);
  if (const auto value = number_in(given); value && *value > 0 && std::isfinite(*value)) return *value;
  throw Error(ErrorCode::bad_input, fmt::format("{} takes a number above 0, not '{}'", what, given));
}

void SettingsReader::refuse_word(std::string_view name, std::string_view given,
                                 std::span<const std::string_view> known) const {
  std::string allowed;
  for (std::size_t i = 0; i < known.size(); ++i)
    allowed += fmt::format("{}{}", i == 0 ? "" : i + 1 == known.size() ? " or " : ", ", known[i]);
  throw Error(ErrorCode::bad_input, fmt::format("--{}.{} takes {}, not '{}'", owner_, name, allowed, given));
}

}  // namespace flockstep::base
