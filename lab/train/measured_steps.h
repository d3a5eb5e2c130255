// How long steps took somewhere, read from a text file: one duration in seconds per line, # begins a comment.
#pragma once

#include <filesystem>
#include <vector>

#include "base/time.h"

namespace flockstep::train {

struct MeasuredSteps {
  std::filesystem::path file;
  std::vector<base::Duration> durations;  // at least one, each above zero

  base::Duration mean() const;
};

// Throws Error{bad_file}, with the number of a line that is wrong.
MeasuredSteps read_measured_steps(const std::filesystem::path& file);

}  // namespace flockstep::train
