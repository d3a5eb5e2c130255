#include "tasks/image_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "flockstep/error.h"
#include "tasks/idx.h"
#include "tasks/shipped_images.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kKeepAsideEvery = 10;

// The four files, and what to call them.
struct Files {
  Idx images, labels;
  std::string images_name, labels_name;
};

std::filesystem::path find(const std::filesystem::path& folder, const std::string& name) {
  std::error_code code;
  for (const auto& candidate : {folder / name, folder / (name + ".gz")})
    if (std::filesystem::exists(candidate, code)) return candidate;
  throw Error(ErrorCode::bad_file, fmt::format("{} holds neither {} nor {}.gz", folder.string(), name, name));
}

Files read(const std::filesystem::path& folder, const std::string& part) {
  const auto images = find(folder, part + "-images-idx3-ubyte"), labels = find(folder, part + "-labels-idx1-ubyte");
  return {read_idx(images, 3), read_idx(labels, 1), images.string(), labels.string()};
}

Files unpack(std::span<const std::byte> images, std::span<const std::byte> labels) {
  const std::string name = "the built-in set of images";
  return {read_idx(images, name, 3), read_idx(labels, name, 1), name, name};
}

LabelledImages join(Files files) {
  if (files.images.sizes[0] != files.labels.sizes[0])
    throw Error(ErrorCode::bad_file, fmt::format("{} holds {} labels for the {} images of {}", files.labels_name,
                                                 files.labels.sizes[0], files.images.sizes[0], files.images_name));
  const std::uint8_t largest = *std::ranges::max_element(files.labels.values);
  if (largest >= kClasses)
    throw Error(ErrorCode::bad_file, fmt::format("{} holds the label {}: labels are 0 to {}", files.labels_name,
                                                 static_cast<int>(largest), kClasses - 1));
  return {std::move(files.images.values), std::move(files.labels.values)};
}

// Moves every tenth image of each class out.
LabelledImages keep_aside(LabelledImages& images, std::size_t pixels) {
  LabelledImages kept, rest;
  std::array<std::size_t, kClasses> seen{};
  for (std::size_t i = 0; i < images.count(); ++i) {
    LabelledImages& to = ++seen[images.labels[i]] % kKeepAsideEvery == 0 ? kept : rest;
    const auto first = images.pixels.begin() + static_cast<std::ptrdiff_t>(i * pixels);
    to.pixels.insert(to.pixels.end(), first, first + static_cast<std::ptrdiff_t>(pixels));
    to.labels.push_back(images.labels[i]);
  }
  images = std::move(rest);
  return kept;
}

std::array<float, 256> centred(const std::vector<std::uint8_t>& pixels) {
  std::uint64_t sum = 0;
  for (const std::uint8_t pixel : pixels) sum += pixel;
  const double mean = static_cast<double>(sum) / static_cast<double>(pixels.size());
  std::array<float, 256> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((static_cast<double>(i) - mean) / 255);
  return values;
}

ImageSet make_set(Files train, Files test) {
  const auto same = [&](std::size_t dimension) {
    return train.images.sizes[dimension] == test.images.sizes[dimension];
  };
  if (!same(1) || !same(2))
    throw Error(ErrorCode::bad_file,
                fmt::format("{} holds images of another size than {}", test.images_name, train.images_name));
  ImageSet set;
  set.pixels = train.images.sizes[1] * train.images.sizes[2];
  set.train = join(std::move(train));
  set.validation = keep_aside(set.train, set.pixels);
  set.test = join(std::move(test));
  for (std::size_t i = 0; i < set.train.count(); ++i)
    set.of_class[set.train.labels[i]].push_back(static_cast<std::uint32_t>(i));
  set.value_of = centred(set.train.pixels);
  return set;
}

ImageSet load(const std::string& folder) {
  if (!folder.empty()) {
    Files train = read(folder, "train");
    return make_set(std::move(train), read(folder, "t10k"));
  }
  const ShippedImages shipped = shipped_images();
  return make_set(unpack(shipped.train_images, shipped.train_labels), unpack(shipped.test_images, shipped.test_labels));
}

}  // namespace

void ImageSet::copy(const LabelledImages& from, std::size_t image, std::span<float> values) const {
  const std::uint8_t* const first = from.pixels.data() + image * pixels;
  for (std::size_t i = 0; i < pixels; ++i) values[i] = value_of[first[i]];
}

std::shared_ptr<const ImageSet> load_image_set(const std::string& folder) {
  // Weak: a set lives as long as somebody trains on it, and a later run sees the files as they are then.
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const ImageSet>> sets;
  const std::lock_guard lock(mutex);  // held while reading: the others would only read the same
  if (auto set = sets[folder].lock()) return set;
  const auto set = std::make_shared<const ImageSet>(load(folder));
  sets[folder] = set;
  return set;
}

}  // namespace flockstep::tasks
