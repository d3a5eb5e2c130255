#include "command/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/split.h"

namespace flockstep::command {
namespace {

constexpr const char* kUngrouped = "Options";  // the group of CLI11 that options are in by default
constexpr const char* kMore = "More options";

// What options are about, in the order in which help shows them. Those of `rest` are in --help-all alone.
struct Subject {
  std::string_view title, main, rest;
};
constexpr std::array<Subject, 4> kSubjects{{
    {"What to train", "task size data algorithm algorithms lr search target",
     "search-seeds shard noisy-workers config"},
    {"Where, and how long", "engine device workers steps batch seed seeds jobs",
     "evaluate-every bucket-kib deadline deterministic no-gradients"},
    {"Late, uneven and wrong workers", "straggler faulty", "straggler-fixed jitter compute-ms compute"},
    {"Results, and help", "out checkpoint-every resume json help help-all", "log"},
}};

std::string group_of(std::string_view owner) { return fmt::format("Options of {}", owner); }

// Those that the command has, in the order of the table.
std::vector<const CLI::Option*> options_about(const CLI::App& command, const Subject& subject, bool all) {
  std::vector<const CLI::Option*> found;
  for (const std::string_view names : {subject.main, all ? subject.rest : ""})
    for (const std::string& name : base::split(names, ' '))
      if (const CLI::Option* option = command.get_option_no_throw(fmt::format("--{}", name))) found.push_back(option);
  return found;
}

class GroupedHelp : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override {
    const bool all = mode == CLI::AppFormatMode::All;
    std::set<std::string> wanted;
    for (const char* flag : {"--task", "--algorithm", "--algorithms", "--engine"})
      if (const CLI::Option* option = command->get_option_no_throw(flag); option && option->count() > 0)
        for (const std::string& entry : base::split(option->results().back(), ','))
          wanted.insert(group_of(entry.substr(0, entry.find(':'))));
    std::string text = make_description(command) + make_usage(command, name);
    for (const Subject& subject : kSubjects)
      text += make_group(std::string(subject.title), false, options_about(*command, subject, all));
    for (const std::string& group : command->get_groups()) {
      const auto is_subject = [&](const Subject& subject) { return subject.title == group; };
      if (std::ranges::any_of(kSubjects, is_subject) || !(all || wanted.contains(group))) continue;
      text += make_group(group, false,
                         command->get_options([&](const CLI::Option* option) { return option->get_group() == group; }));
    }
    return text + "\n" + make_footer(command);
  }
};

}  // namespace

void add_short_help(CLI::App& command) {
  command.set_help_all_flag("--help-all", "Print the help of all options and exit");
  for (CLI::Option* option : command.get_options())
    if (option->get_group() == kUngrouped)
      option->group(option->get_description().starts_with("sim: ") ? group_of("sim") : kMore);
  for (const Subject& subject : kSubjects)
    for (const CLI::Option* option : options_about(command, subject, true))
      command.get_option("--" + option->get_lnames()[0])->group(std::string(subject.title));
  command.formatter(std::make_shared<GroupedHelp>());
  command.footer(
      fmt::format("`flockstep {0} --help-all` shows all options. `flockstep {0} --task NAME --{1} NAME --help` adds "
                  "those of a task\n"
                  "and of an algorithm, `--engine sim --help` those of simulations.{2}{3}",
                  command.get_name(), command.get_option_no_throw("--algorithm") ? "algorithm" : "algorithms",
                  command.get_footer().empty() ? "" : "\n", command.get_footer()));
}

}  // namespace flockstep::command
