// The report is drawn by Python (python/flockstep/report); here it is only found and started.
#pragma once

#include <filesystem>

namespace flockstep::command {

// Draws the report of a run or a comparison and returns the path of its page. Throws Error; its sentence is empty when
// Python has already said on standard error what was wrong.
std::string draw_report(const std::filesystem::path& folder);

}  // namespace flockstep::command
