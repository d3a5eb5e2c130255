// Options of algorithms and tasks as users give them: words under names, checked and turned into values in one place.
//
// A table of OptionSpec describes what there is (for --help and for the command's flags); the algorithm's own code
// reads it through a SettingsReader, whose sentences name the option and the allowed range.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"

namespace flockstep::base {

struct OptionSpec {
  std::string_view name;
  std::string_view default_value;
  std::string_view help;
};

using Settings = std::map<std::string, std::string, std::less<>>;

class SettingsReader {
 public:
  // `owner` is the prefix in sentences, such as local_sgd. Throws Error{bad_input} for a name that no spec has.
  SettingsReader(std::string_view owner, std::span<const OptionSpec> specs, const Settings& settings);

  std::int64_t integer(std::string_view name, std::int64_t least, std::int64_t most) const;
  double real(std::string_view name, double least, double most) const;
  std::string text(std::string_view name) const;
  // The place of the given word among `words`.
  std::size_t choice(std::string_view name, std::span<const std::string_view> words) const;

 private:
  std::string owner_;
  std::span<const OptionSpec> specs_;
  const Settings& settings_;
};

// Whole-word number parsing with one clear sentence; `what` names the option, such as "--steps".
std::int64_t parse_integer(std::string_view what, std::string_view text, std::int64_t least, std::int64_t most);
double parse_real(std::string_view what, std::string_view text, double least, double most);
// "320ms", "1.5s" or "50us"; not negative.
Duration parse_duration(std::string_view what, std::string_view text);

}  // namespace flockstep::base
