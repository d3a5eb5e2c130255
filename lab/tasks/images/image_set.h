// Labelled images in ten classes, grey or in colours, from the files of MNIST or a relative of it, or of CIFAR-10.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"

namespace flockstep::tasks {

constexpr std::size_t kClasses = 10;

// What tasks on images say about their files.
constexpr base::OptionSpec kDataOption{"data", "",
                                       "folder with the files of MNIST, Fashion-MNIST or CIFAR-10 (binary), instead of "
                                       "the built-in part of Fashion-MNIST"};

struct ImageShape {
  std::size_t channels = 0, height = 0, width = 0;

  constexpr std::size_t pixels() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

struct LabelledImages {
  std::vector<std::uint8_t> pixels;   // one image after the other, channel by channel, row by row
  std::vector<std::uint32_t> labels;  // below kClasses

  std::size_t count() const { return labels.size(); }
};

// Of the images to train on.
struct TrainingLabels {
  std::span<const std::uint32_t> labels;
  std::span<const std::vector<std::uint32_t>> of_class;  // the images of each class
};

// How an image is moved within its frame; what comes in from outside is black.
struct Move {
  int down = 0, right = 0;
  bool mirrored = false;  // left and right, before it is moved
};

struct ImageSet {
  ImageShape shape;  // of one image
  // Of each class, every tenth image of the training files is kept aside for validation.
  LabelledImages train, validation, test;
  std::array<std::vector<std::uint32_t>, kClasses> of_class;  // the training images of each class
  // What a pixel of each channel is to a network: between -1 and 1, with mean zero over the training images.
  std::vector<std::array<float, 256>> value_of;

  std::size_t pixels() const { return shape.pixels(); }
  TrainingLabels training() const { return {train.labels, of_class}; }
  // Writes the values of one image, channel by channel, row by row.
  void copy(const LabelledImages& from, std::size_t image, std::span<float> values, Move move = {}) const;
};

// Whether a folder holds a file of such a set, be it complete or not.
bool holds_image_set(const std::filesystem::path& folder);

// The set in a folder, or the one that is built in for "". Read once for all workers of a process that ask while one of
// them holds it. Throws Error{bad_file}.
std::shared_ptr<const ImageSet> load_image_set(const std::string& folder);

// The files that are read where kDataOption is among the settings. Throws Error{bad_file} if its folder holds no such.
std::vector<std::filesystem::path> image_files(const base::Settings& settings);

}  // namespace flockstep::tasks
