// Labelled grey images in ten classes, from the files of MNIST or a relative of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace flockstep::tasks {

constexpr std::size_t kClasses = 10;

struct LabelledImages {
  std::vector<std::uint8_t> pixels;  // one image after the other
  std::vector<std::uint8_t> labels;  // below kClasses

  std::size_t count() const { return labels.size(); }
};

struct ImageSet {
  std::size_t pixels = 0;  // of one image
  // Of each class, every tenth image of the training files is kept aside for validation.
  LabelledImages train, validation, test;
  std::array<std::vector<std::uint32_t>, kClasses> of_class;  // the training images of each class
  // What a pixel is to a network: between -1 and 1, with mean zero over the training images.
  std::array<float, 256> value_of{};

  // Writes the values of one image.
  void copy(const LabelledImages& from, std::size_t image, std::span<float> values) const;
};

// The set in a folder, or the one that is built in for "". Read once for all workers of a process that ask while one of
// them holds it. Throws Error{bad_file}.
std::shared_ptr<const ImageSet> load_image_set(const std::string& folder);

}  // namespace flockstep::tasks
