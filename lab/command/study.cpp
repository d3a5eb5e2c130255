#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <thread>

#include "base/files.h"
#include "base/schema.h"
#include "base/text.h"
#include "command/arguments.h"
#include "command/child_runs.h"
#include "command/commands.h"
#include "command/completion.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/signals.h"
#include "command/table.h"
#include "flockstep/version.h"
#include "study/kept_cells.h"
#include "study/registry.h"
#include "tasks/data_file.h"

namespace flockstep::command {
namespace {

struct StudyFlags {
  std::string name, out, data;
  std::int64_t steps = 0;
  bool quick = false, json = false, markdown = false;
  std::size_t jobs = 0;  // as many as suit the study
  std::vector<std::string> scenarios;
  std::string algorithms;
};

int list_studies(bool as_json) {
  nlohmann::json json = nlohmann::json::array();
  Table table({"name", "what it is about"});
  table.left();
  for (const study::StudyRow& row : study::studies()) {
    table.add({std::string(row.name), std::string(row.description)});
    json.push_back({{"schema", base::kSchema}, {"name", row.name}, {"description", row.description}});
  }
  fmt::print("{}", as_json ? json.dump(2) + "\n" : table.text());
  return 0;
}

// Where the study's files go: --out, which no other call has meanwhile, or a folder that is gone with this object.
class Folder {
 public:
  explicit Folder(const std::string& out) : path_(out) {
    if (!out.empty()) {
      lock_ = std::make_unique<base::FolderLock>(path_);
      return;
    }
    const std::string drawn(6, 'X');  // what mkdtemp replaces
    std::string name = (std::filesystem::temp_directory_path() / ("flockstep-study-" + drawn)).string();
    if (!::mkdtemp(name.data()))
      throw Error(ErrorCode::bad_file, fmt::format("cannot make a folder {} for the study: name one with --out", name));
    path_ = name;
  }
  ~Folder() {
    if (!lock_) base::remove_folder(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<base::FolderLock> lock_;
};

// What another study has left is not written over.
void protect_other_study(const std::filesystem::path& folder, std::string_view name) {
  const std::filesystem::path file = folder / "study.json";
  if (!std::filesystem::exists(file)) return;
  const auto json = nlohmann::json::parse(base::read_text(file), nullptr, false);
  base::require_known_schema(json, file.string());
  const bool is_study = json.is_object() && json.contains("study") && json["study"].is_string();
  if (is_study && json["study"] == name) return;
  throw Error(ErrorCode::bad_input, fmt::format("{} holds {}: choose another --out", folder.string(),
                                                is_study ? fmt::format("the study {}", json["study"].get<std::string>())
                                                         : "a study.json that cannot be read"));
}

std::string markdown_of(const study::StudyTable& table) {
  const std::vector<std::string> rule(table.columns.size(), "---");
  std::string text = fmt::format("\n| {} |\n| {} |\n", fmt::join(table.columns, " | "), fmt::join(rule, " | "));
  for (const auto& row : table.rows) text += fmt::format("| {} |\n", fmt::join(row, " | "));
  return text;
}

void print(const study::StudyResult& result, bool as_markdown) {
  for (const study::StudyTable& each : result.tables) {
    Table table(each.columns);
    for (const auto& row : each.rows) table.add(row);
    fmt::print("{}.\n{}\n", each.title, as_markdown ? markdown_of(each) : table.text());
  }
  for (const std::string& sentence : result.words) fmt::print("{}\n", sentence);
  std::fflush(stdout);
}

// A study without its pictures is still one: what stands in their way is told, and that is all.
void draw(const StudyFlags& flags) {
  try {
    Progress progress;
    progress.begin_uncounted("drawing the pictures");
    const std::string page = draw_report(flags.out);
    if (!flags.json) fmt::print("Tables and pictures are in {}.\n", page);
  } catch (const Error& error) {
    if (*error.what()) fmt::print(stderr, "flockstep: no pictures: {}\n", error.what());
  }
}

int run_study(const StudyFlags& flags) {
  if (flags.name.empty()) return list_studies(flags.json);
  const study::StudyRow& row = study::find_study(flags.name);
  if (!flags.data.empty() && !row.takes_data)
    throw Error(ErrorCode::bad_input, fmt::format("the study {} reads no data: leave out --data", row.name));
  if (!row.has_scenarios && (!flags.scenarios.empty() || !flags.algorithms.empty()))
    throw Error(ErrorCode::bad_input, fmt::format("the study {} has no scenarios: leave out {}", row.name,
                                                  flags.algorithms.empty() ? "--scenario" : "--algorithms"));
  tasks::require_data(flags.data);
  const Folder folder(flags.out);
  protect_other_study(folder.path(), row.name);
  advise_on_sigterm(flags.out.empty() ? "; with --out the same command again would continue from there"
                                      : "; the same command again continues from there");
  Progress progress;
  ChildRuns runner(flags.jobs > 0 ? flags.jobs : std::max(1u, std::thread::hardware_concurrency()), progress);
  study::KeptCellsOptions kept{.folder = flags.out, .stop_requested = stop_requested};
  kept.on_progress = [&](const std::string& title, std::size_t made, std::size_t to_make) {
    if (made == 0) progress.begin(title, "runs");
    progress.show_at_once(static_cast<std::int64_t>(made), static_cast<std::int64_t>(to_make));
  };
  study::KeptCells cells(std::move(kept), runner);
  study::StudyResult result;
  try {
    const auto algorithms =
        flags.algorithms.empty() ? std::vector<std::string>{} : names_of("--algorithms", flags.algorithms);
    result = row.make({flags.steps, flags.quick, folder.path(), flags.data, flags.scenarios, algorithms}, cells);
  } catch (const study::Interrupted&) {
    progress.clear();
    fmt::print(stderr, "flockstep: stopped by {} after {}{}\n", name_of_signal(),
               base::counted(cells.made() + cells.kept(), "run"),
               flags.out.empty() ? "" : "; the same command again continues from there");
    return exit_code_of_signal();
  }
  progress.clear();
  if (cells.kept() > 0)
    fmt::print(stderr, "flockstep: {} {} already done\n", base::counted(cells.kept(), "run"),
               cells.kept() == 1 ? "was" : "were");
  nlohmann::json json = to_json(result);
  json["schema"] = base::kSchema;
  json["study"] = row.name;
  json["description"] = row.description;
  json["version"] = kVersion;
  if (!flags.out.empty()) base::write_atomically(folder.path() / "study.json", json.dump(2) + "\n");
  if (flags.json)
    fmt::print("{}\n", json.dump(2));
  else
    print(result, flags.markdown);
  if (!flags.out.empty()) draw(flags);
  return 0;
}

}  // namespace

void add_study(CLI::App& app, Action& chosen) {
  CLI::App& command =
      *app.add_subcommand("study", "answer a question with many runs; without a name: list the studies");
  const auto flags = std::make_shared<StudyFlags>();
  command.add_option("STUDY", flags->name, "its name (`flockstep study` lists them)")->type_name("");
  command.add_option("--out", flags->out, "folder for study.json, its pictures and the results of every run")
      ->type_name(kFolder);
  command.add_option("--jobs", flags->jobs, "runs in parallel, each in its own process [the number of cores]")
      ->check(whole(1, kMostChildren));
  command.add_option("--steps", flags->steps, "of every run [the study's choice]")
      ->check(whole(1, std::int64_t{1} << 31));
  command.add_flag("--quick", flags->quick, "fewer workers, steps and seeds: a first impression");
  command.add_option("--data", flags->data, "the task's files, such as a folder with images [the built-in data]")
      ->type_name(kFile);
  command.add_option("--scenario", flags->scenarios,
                     "run only this scenario of the study; may be repeated. Tables show all scenarios in --out");
  command
      .add_option("--algorithms", flags->algorithms,
                  "algorithms of every scenario, such as mean,flock [the study's own]")
      ->type_name(kAlgorithms);
  command.add_flag("--markdown", flags->markdown, "print tables in Markdown");
  command.add_flag("--json", flags->json, "print the result, or the list, as JSON");
  command.footer("With --out, the same command again repeats no finished run.");
  command.callback([flags, &chosen] { chosen = [flags] { return run_study(*flags); }; });
}

}  // namespace flockstep::command
