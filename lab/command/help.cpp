#include "command/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/split.h"

namespace flockstep::command {
namespace {

constexpr const char* kShown = "Options";  // the group of CLI11 that options are in by default
constexpr const char* kMore = "More options";

constexpr std::array<std::string_view, 23> kShownOptions{
    "help",       "help-all",
    "task",       "size",
    "data",       "algorithm",
    "algorithms", "engine",
    "workers",    "steps",
    "batch",      "lr",
    "seed",       "seeds",
    "search",     "target",
    "jobs",       "straggler",
    "out",        "resume",
    "json",       "checkpoint-every",
    "device",
};

std::string group_of(std::string_view owner) { return fmt::format("Options of {}", owner); }

class ShortHelp : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override {
    if (mode != CLI::AppFormatMode::Normal) return CLI::Formatter::make_help(command, name, mode);
    std::set<std::string> wanted{kShown};
    for (const char* flag : {"--task", "--algorithm", "--algorithms", "--engine"})
      if (const CLI::Option* option = command->get_option_no_throw(flag); option && option->count() > 0)
        for (const std::string& entry : base::split(option->results().back(), ','))
          wanted.insert(group_of(entry.substr(0, entry.find(':'))));
    std::string text = make_description(command) + make_usage(command, name);
    for (const std::string& group : command->get_groups()) {
      const auto options =
          command->get_options([&](const CLI::Option* option) { return option->get_group() == group; });
      if (wanted.contains(group)) text += make_group(group, false, options);
    }
    return text + "\n" + make_footer(command);
  }
};

}  // namespace

void add_short_help(CLI::App& command) {
  command.set_help_all_flag("--help-all", "Print the help of all options and exit");
  for (CLI::Option* option : command.get_options()) {
    if (option->get_group() != kShown) continue;
    const std::string& name = option->get_lnames().at(0);
    if (option->get_description().starts_with("sim: "))
      option->group(group_of("sim"));
    else if (std::ranges::find(kShownOptions, name) == kShownOptions.end())
      option->group(kMore);
  }
  command.formatter(std::make_shared<ShortHelp>());
  command.footer(
      fmt::format("`flockstep {0} --help-all` shows all options. `flockstep {0} --task NAME --{1} NAME --help` adds "
                  "those of a task\n"
                  "and of an algorithm, `--engine sim --help` those of simulations.{2}{3}",
                  command.get_name(), command.get_option_no_throw("--algorithm") ? "algorithm" : "algorithms",
                  command.get_footer().empty() ? "" : "\n", command.get_footer()));
}

}  // namespace flockstep::command
