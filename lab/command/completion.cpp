#include "command/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "algorithms/registry.h"
#include "base/names.h"
#include "base/split.h"
#include "command/commands.h"
#include "engines/registry.h"
#include "engines/sim/presets.h"
#include "study/registry.h"
#include "tasks/registry.h"

namespace flockstep::command {
namespace {

struct Word {
  std::string text, meaning;
};

struct Answer {
  std::string_view paths = "none";
  std::vector<Word> words;
};

template <typename Rows>
std::vector<Word> names_of(const Rows& rows) {
  std::vector<Word> words;
  for (const auto& row : rows) words.push_back({std::string(row.name), std::string(row.description)});
  return words;
}

// What an option with this type name takes, which begins with `typed`.
Answer values_of(const std::string& type, const std::string& typed) {
  Answer answer;
  std::string before;  // of several values, those that are there
  if (type == kTask) {
    answer.words = names_of(tasks::tasks());
  } else if (type == kAlgorithm) {
    answer.words = names_of(algorithms::algorithms());
  } else if (type == kAlgorithms) {
    before = typed.substr(0, typed.rfind(',') + 1);
    answer.words = names_of(algorithms::algorithms());
  } else if (type == kEngine) {
    answer.words = names_of(engines::backends());
    answer.words.push_back({"auto", "what this process was started for"});
  } else if (type == kNetwork) {
    answer.words = names_of(engines::sim::presets());
    answer.paths = "files";
  } else if (type == kStudy) {
    answer.words = names_of(study::studies());
  } else if (type == kFile || type == kFolder) {
    answer.paths = type == kFile ? "files" : "folders";
  } else if (type.find('|') != std::string::npos) {
    for (const std::string& word : base::split(type, '|')) answer.words.push_back({word, ""});
  }
  for (Word& word : answer.words) word.text = before + word.text;
  return answer;
}

// Of wagma.period: wagma.
std::string owner_of(const std::string& name) {
  const auto dot = name.find('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// Those of tasks and algorithms, of which there are hundreds, only where they are named or nothing else is meant.
std::vector<Word> options_of(const CLI::App& command, const std::vector<std::string>& words) {
  std::set<std::string> named;
  for (const std::string& word : words)
    for (const std::string& part : base::split(word, ',')) named.insert(part.substr(0, part.find(':')));
  std::vector<Word> found, others;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames()[0];
    const Word word{"--" + name, option->get_description()};
    if (!word.text.starts_with(words.back())) continue;
    (owner_of(name).empty() || named.contains(owner_of(name)) ? found : others).push_back(word);
  }
  return found.empty() ? others : found;
}

bool takes_value(const CLI::Option* option) { return option && option->get_items_expected_max() > 0; }

const CLI::Option* option_called(const CLI::App& command, const std::string& flag) {
  return flag.starts_with("--") ? command.get_option_no_throw(flag) : nullptr;
}

// The first word without a dash that is no option's value: commands take at most one.
const CLI::Option* positional_left(const CLI::App& command, const std::vector<std::string>& words) {
  for (std::size_t i = 1; i + 1 < words.size(); ++i)
    if (!words[i].starts_with("-") && !takes_value(option_called(command, words[i - 1]))) return nullptr;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) return option;
  return nullptr;
}

std::string type_of(const CLI::Option& option) {
  return option.get_positional() && option.get_type_name().empty() ? option.get_name(true) : option.get_type_name();
}

// bash takes --task=images apart, and asks about "=" or about what is behind it.
void join_at_equals(std::vector<std::string>& words) {
  if (words.size() >= 2 && words.back() == "=") words.back() = "";
  if (words.size() >= 3 && words[words.size() - 2] == "=") words.erase(words.end() - 2);
}

Answer answer_to(const CLI::App& app, std::vector<std::string> words) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (words.size() < 2) {
    Answer answer;
    for (const CLI::App* each : commands) answer.words.push_back({each->get_name(), each->get_description()});
    for (const Word& option : options_of(app, words)) answer.words.push_back(option);
    return answer;
  }
  const auto found = std::ranges::find(commands, words[0], [](const CLI::App* each) { return each->get_name(); });
  if (found == commands.end()) return {};
  const CLI::App* command = *found;
  if (std::ranges::find(words.begin(), words.end() - 1, "--") != words.end() - 1)
    return {.paths = "files", .words = {}};
  join_at_equals(words);
  const std::string& typed = words.back();
  if (const CLI::Option* before = option_called(*command, words[words.size() - 2]); takes_value(before))
    return values_of(type_of(*before), typed);
  if (const auto equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = option_called(*command, typed.substr(0, equals));
    Answer answer = takes_value(option) ? values_of(type_of(*option), typed.substr(equals + 1)) : Answer{};
    for (Word& word : answer.words) word.text = typed.substr(0, equals + 1) + word.text;
    return answer;
  }
  if (const CLI::Option* positional = positional_left(*command, words); positional && !typed.starts_with("-"))
    return values_of(type_of(*positional), typed);
  return {.words = options_of(*command, words)};
}

constexpr std::string_view kBash = R"(# bash completion of flockstep: source <(flockstep completion bash)
_flockstep() {
  local IFS=$'\n' typed=${COMP_WORDS[COMP_CWORD]} line
  local -a lines
  mapfile -t lines < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=()
  for line in "${lines[@]:1}"; do COMPREPLY+=("${line%%$'\t'*}"); done
  [[ $typed == "=" ]] && typed=
  case ${lines[0]} in
    files) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$typed")) ;;
    folders) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$typed")) ;;
  esac
}
complete -F _flockstep flockstep
)";

constexpr std::string_view kZsh = R"(#compdef flockstep
# zsh completion of flockstep: source <(flockstep completion zsh), or as _flockstep in a folder of $fpath
_flockstep() {
  local -a lines found shown
  local line
  lines=("${(@f)$("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${(@)lines[2,-1]}"; do
    found+=("${line%%$'\t'*}")
    shown+=("${${line/$'\t'/  -- }%  -- }")
  done
  (( $#found )) && compadd -l -d shown -a found
  case $lines[1] in
    files) compset -P '--*='; _files ;;
    folders) compset -P '--*='; _files -/ ;;
  esac
}
if [[ $funcstack[1] == _flockstep ]]; then _flockstep "$@"; else compdef _flockstep flockstep; fi
)";

constexpr std::string_view kFish = R"(# fish completion of flockstep: flockstep completion fish | source
function __flockstep_words
  set -l typed (commandline -ct)
  set -l before (commandline -opc)
  set -l lines ($before[1] __complete $before[2..-1] "$typed" 2>/dev/null)
  switch "$lines[1]"
    case files
      __fish_complete_path "$typed"
    case folders
      __fish_complete_directories "$typed"
  end
  set -q lines[2]; and printf '%s\n' $lines[2..-1]
end
complete -c flockstep -f -a '(__flockstep_words)'
)";

struct Shell {
  std::string_view name, script;
};
constexpr std::array<Shell, 3> kShells{{{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}}};

}  // namespace

int complete(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty()) words.emplace_back();
  const Answer answer = answer_to(app, words);
  join_at_equals(words);
  fmt::print("{}\n", answer.paths);
  for (const Word& word : answer.words)
    if (word.text.starts_with(words.back()))
      fmt::print("{}\t{}\n", word.text, word.meaning.substr(0, word.meaning.find('\n')));
  return 0;
}

void add_completion(CLI::App& app, Action& chosen) {
  CLI::App& command =
      *app.add_subcommand("completion", "print a script with which a shell completes this command")->group("Shells");
  const auto name = std::make_shared<std::string>();
  command.add_option("SHELL", *name, "the shell")->required()->type_name("bash|zsh|fish");
  command.footer(
      "bash, in ~/.bashrc:                   source <(flockstep completion bash)\n"
      "zsh, in ~/.zshrc, after compinit:     source <(flockstep completion zsh)\n"
      "fish, in ~/.config/fish/config.fish:  flockstep completion fish | source\n"
      "The scripts ask the command itself, so they know the options of the version that is installed.");
  command.callback([name, &chosen] {
    chosen = [name] {
      fmt::print("{}", base::find_by_name(std::span<const Shell>(kShells), *name, "shell").script);
      return 0;
    };
  });
}

}  // namespace flockstep::command
