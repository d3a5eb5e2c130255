// Options of algorithms and tasks as users give them: words under names, checked and turned into values in one place.
//
// A table of OptionSpec describes what there is (for --help and for the command's flags); the algorithm's own code
// reads it through a SettingsReader, whose sentences name the option and the allowed range.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace flockstep::base {

struct OptionSpec {
  std::string_view name;
  std::string_view default_value;
  std::string_view help;
};

// A word that users write and what it stands for.
template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};

using Settings = std::map<std::string, std::string, std::less<>>;

class SettingsReader {
 public:
  // `owner` is the prefix in sentences, such as local_sgd. Throws Error{bad_input} for a name that no spec has.
  SettingsReader(std::string_view owner, std::span<const OptionSpec> specs, const Settings& settings);

  std::int64_t integer(std::string_view name, std::int64_t least, std::int64_t most) const;
  double real(std::string_view name, double least, double most) const;
  double below_one(std::string_view name) const;  // 0 <= value < 1
  double positive(std::string_view name) const;   // finite and > 0
  Duration duration(std::string_view name) const;

  // One of a few words, each of which stands for a value.
  template <typename Value>
  Value choice(std::string_view name, std::span<const Choice<Value>> choices) const {
    const std::string given = text(name);
    std::vector<std::string_view> names;
    for (const auto& [known, value] : choices) {
      if (known == given) return value;
      names.push_back(known);
    }
    refuse_word(name, given, names);
  }
  template <typename Value, std::size_t N>
  Value choice(std::string_view name, const std::array<Choice<Value>, N>& choices) const {
    return choice(name, std::span<const Choice<Value>>(choices));
  }

  bool yes_no(std::string_view name) const;

  std::string text(std::string_view name) const;

 private:
  [[noreturn]] void refuse_word(std::string_view name, std::string_view given,
                                std::span<const std::string_view> known) const;

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
