#include "command/report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "command/child.h"
#include "command/commands.h"
#include "flockstep/error.h"

namespace flockstep::command {
namespace {

using std::filesystem::path;

// Both places are relative to the executable, so that a tree may be moved: see src/CMakeLists.txt.
path find_package() {
  const path here = base::folder_of_this_executable();
  for (const char* place : {FLOCKSTEP_PYTHON_WHEN_INSTALLED, FLOCKSTEP_PYTHON_WHEN_BUILT}) {
    const path package = (here / place).lexically_normal();
    if (std::filesystem::exists(package / "flockstep" / "report" / "__main__.py")) return package;
  }
  throw Error(ErrorCode::unavailable,
              fmt::format("the report's Python package is neither beside the sources nor in {}: install again",
                          (here / FLOCKSTEP_PYTHON_WHEN_INSTALLED).lexically_normal().string()));
}

std::string find_python() {
  if (const char* chosen = std::getenv("FLOCKSTEP_PYTHON"); chosen && *chosen) return chosen;
  const path build = base::folder_of_this_executable().parent_path(),
             venv = build.parent_path() / "venv" / "bin" / "python";
  if (std::filesystem::exists(build / "CMakeCache.txt") && ::access(venv.c_str(), X_OK) == 0) return venv;
  return "python3";
}

std::string make_report(const path& folder, bool as_text) {
  const path package = find_package();
  const std::string python = find_python();
  const char* before = std::getenv("PYTHONPATH");
  const std::string search_path =
      fmt::format("PYTHONPATH={}{}{}", package.string(), before && *before ? ":" : "", before ? before : "");
  std::vector<std::string> arguments{"-m", "flockstep.report", folder.string()};
  if (as_text) arguments.emplace_back("--text");
  Finished finished;
  try {
    finished = run_program(python, arguments, {search_path});
  } catch (const Error& error) {
    throw Error(
        ErrorCode::unavailable,
        fmt::format(
            "the report needs Python with matplotlib, jinja2 and msgspec, but I {}: let FLOCKSTEP_PYTHON name one "
            "that has them",
            error.what()));
  }
  if (finished.code != 0) {
    // Python has said what was wrong, unless a signal ended it.
    const std::string sentence =
        finished.code > 2 ? fmt::format("drawing the report of {} ended with code {}", folder.string(), finished.code)
                          : "";
    throw Error(finished.code == 2 ? ErrorCode::bad_input : ErrorCode::unavailable, sentence);
  }
  std::string& said = finished.output;
  said.erase(said.find_last_not_of('\n') + 1);
  return said;
}

}  // namespace

std::string draw_report(const path& folder) { return make_report(folder, false); }

void add_report(CLI::App& app, Action& chosen) {
  CLI::App& command = *app.add_subcommand(
      "report", "draw the folder of a run, a comparison or a study as one page, DIR/report.html, or print its tables");
  const auto folder = std::make_shared<std::string>();
  const auto as_text = std::make_shared<bool>(false);
  command.add_option("DIR", *folder, "what --out named, or one run's folder")->required()->type_name("");
  command.add_flag("--text", *as_text, "print the page's text and tables to standard output; draw and write nothing");
  command.footer(
      "The page is one file without external links: text, tables and pictures, for any browser. Its path is\nprinted. "
      "What the folder does not have is left out. Drawing needs Python with matplotlib, jinja2 and msgspec,\n"
      "--text only numpy and msgspec; FLOCKSTEP_PYTHON names a Python that has them.");
  command.callback([folder, as_text, &chosen] {
    chosen = [folder, as_text] {
      fmt::print("{}\n", make_report(*folder, *as_text));
      return 0;
    };
  });
}

}  // namespace flockstep::command
