#include "cli/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>

#include "base/files.h"
#include "flockstep/error.h"

namespace flockstep::cli {
namespace {

// The names of the commands whose flags a config file may hold in a section of their own.
constexpr std::array<std::string_view, 2> kSections{"train", "compare"};

}  // namespace

std::vector<std::string> with_config_file(std::vector<std::string> arguments) {
  std::string path;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("--config=")) path = arguments[i].substr(9);
    if (arguments[i] == "--config" && i + 1 < arguments.size()) path = arguments[i + 1];
  }
  if (path.empty()) return arguments;

  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream file(base::read_text(path));
    items = CLI::ConfigTOML().from_config(file);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_input, fmt::format("--config: {}", error.what()));
  } catch (const CLI::Error& error) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is not TOML that can be read: {}", path, error.what()));
  }
  std::vector<std::string> given;
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // marks where a section begins and ends
    auto names = item.parents;
    if (!names.empty() && std::ranges::find(kSections, names[0]) != kSections.end()) {
      if (names[0] != arguments[0]) continue;  // another command's
      names.erase(names.begin());
    }
    names.push_back(item.name);
    const std::string name = fmt::format("{}", fmt::join(names, ".")),
                      value = fmt::format("{}", fmt::join(item.inputs, ","));
    if (value.empty() || name == "config")
      throw Error(ErrorCode::bad_input,
                  fmt::format("{} in {} {}", name, path,
                              value.empty() ? "has no value" : "leads to another file: give it on the command line"));
    given.push_back(fmt::format("--{}={}", name, value));
  }
  arguments.insert(arguments.begin() + 1, given.begin(), given.end());
  return arguments;
}

}  // namespace flockstep::cli
