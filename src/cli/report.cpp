#include "cli/report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "flockstep/error.h"

namespace flockstep::cli {
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

}  // namespace

std::string draw_report(const path& folder) {
  const path package = find_package();
  const std::string python = find_python();
  const char* before = std::getenv("PYTHONPATH");
  const std::string search_path =
      fmt::format("PYTHONPATH={}{}{}", package.string(), before && *before ? ":" : "", before ? before : "");
  Finished finished;
  try {
    finished = run_program(python, {"-m", "flockstep.report", folder.string()}, {search_path});
  } catch (const Error& error) {
    throw Error(
        ErrorCode::unavailable,
        fmt::format("the report needs Python with matplotlib, but I {}: let FLOCKSTEP_PYTHON name one that has it",
                    error.what()));
  }
  if (finished.code != 0) {
    // Python has said what was wrong, unless a signal ended it.
    const std::string sentence =
        finished.code > 2 ? fmt::format("drawing the report of {} ended with code {}", folder.string(), finished.code)
                          : "";
    throw Error(finished.code == 2 ? ErrorCode::bad_input : ErrorCode::unavailable, sentence);
  }
  std::string& page = finished.output;
  page.erase(page.find_last_not_of('\n') + 1);
  return page;
}

void add_report(CLI::App& app, Action& chosen) {
  CLI::App& command =
      *app.add_subcommand("report", "draw the folder of a run or a comparison as one page, DIR/report.html");
  const auto folder = std::make_shared<std::string>();
  command.add_option("DIR", *folder, "what --out named, or one run's folder")->required();
  command.callback([folder, &chosen] {
    chosen = [folder] {
      fmt::print("{}\n", draw_report(*folder));
      return 0;
    };
  });
}

}  // namespace flockstep::cli
