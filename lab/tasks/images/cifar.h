// The binary files of CIFAR-10: records of a label and 32 x 32 pixels in red, then green, then blue.
#pragma once

#include <filesystem>

#include "tasks/images/image_set.h"

namespace flockstep::tasks {

constexpr ImageShape kCifarShape{3, 32, 32};

// Appends the images of a file. Throws Error{bad_file}.
void read_cifar(const std::filesystem::path& path, LabelledImages& images);

}  // namespace flockstep::tasks
