// Pictures in folders, one for each class, as those of ImageNet: train/CLASS/*.jpg and val/CLASS/*.jpg, or CLASS/*.jpg.
//
// Only names are read here, about a hundred bytes of memory for each: pictures are decoded when they are asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace flockstep::tasks {

struct ImageFolder {
  struct Part {
    std::filesystem::path folder;       // of the folders of classes
    std::vector<std::string> files;     // within the folder of their class
    std::vector<std::uint32_t> labels;  // places in `classes`
  };

  std::vector<std::string> classes;  // sorted by name
  // `val` is the test; where there is none, every fifth picture of each class is, in the order of their names. Of the
  // others every tenth of each class is kept aside for validation.
  Part train, validation, test;
  std::vector<std::vector<std::uint32_t>> of_class;  // the training pictures of each class

  std::filesystem::path file(const Part& part, std::size_t picture) const {
    return part.folder / classes[part.labels[picture]] / part.files[picture];
  }
};

// Whether there are folders in it.
bool is_image_folder(const std::filesystem::path& folder);

// Read once for all workers of a process that ask while one of them holds it. Throws Error{bad_file}.
std::shared_ptr<const ImageFolder> load_image_folder(const std::string& folder);

// All folders of classes. Throws Error{bad_file}.
std::vector<std::filesystem::path> class_folders(const std::string& folder);

}  // namespace flockstep::tasks
