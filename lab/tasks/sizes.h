// Sizes of a task, such as tiny, small and paper: each a set of defaults for its other options.
#pragma once

#include <array>

#include "tasks/registry.h"

namespace flockstep::tasks {

constexpr base::OptionSpec kSizeOption{"size", "tiny",
                                       "tiny, small or paper: sets the options below that are not given"};
// What the table of options says for an option whose default is the size's.
constexpr std::string_view kBySize = "by size";

// The size that the settings name. Throws Error{bad_input}, with the task's name in the sentence.
const Size& size_of(std::string_view task, std::span<const base::OptionSpec> options, std::span<const Size> sizes,
                    const base::Settings& settings);
// The settings, and those of their size where they are silent.
base::Settings with_size(std::string_view task, std::span<const base::OptionSpec> options, std::span<const Size> sizes,
                         const base::Settings& settings);

}  // namespace flockstep::tasks
