#include "tasks/images/image_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "tasks/data_file.h"
#include "tasks/images/cifar.h"
#include "tasks/images/idx.h"
#include "tasks/images/shipped_images.h"
#include "tasks/shared_data.h"

namespace flockstep::tasks {
namespace {

using std::filesystem::path;

constexpr std::size_t kKeepAsideEvery = 10;
constexpr int kCifarBatches = 5;

// The images for training or those for the test, and what to call their file.
struct Portion {
  LabelledImages images;
  ImageShape shape;
  std::string name;
};

bool holds(const path& folder, const std::string& name) {
  std::error_code code;
  return std::filesystem::exists(folder / name, code);
}

path find_idx(const path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"})
    if (holds(folder, candidate)) return folder / candidate;
  refuse_file(folder.string(), fmt::format("holds neither {} nor {}.gz", name, name));
}

Portion join(Idx images, Idx labels, const std::string& images_name, const std::string& labels_name) {
  if (images.sizes[0] != labels.sizes[0])
    refuse_file(labels_name,
                fmt::format("holds {} labels for the {} images of {}", labels.sizes[0], images.sizes[0], images_name));
  const std::uint8_t largest = *std::ranges::max_element(labels.values);
  if (largest >= kClasses)
    refuse_file(labels_name, fmt::format("holds the label {}: labels are 0 to {}", largest, kClasses - 1));
  return {{std::move(images.values), {labels.values.begin(), labels.values.end()}},
          {1, images.sizes[1], images.sizes[2]},
          images_name};
}

path find_images(const path& folder, const std::string& part) { return find_idx(folder, part + "-images-idx3-ubyte"); }
path find_labels(const path& folder, const std::string& part) { return find_idx(folder, part + "-labels-idx1-ubyte"); }

Portion read_grey(const path& folder, const std::string& part) {
  const path images = find_images(folder, part), labels = find_labels(folder, part);
  return join(read_idx(images, 3), read_idx(labels, 1), images.string(), labels.string());
}

Portion unpack(std::span<const std::byte> images, std::span<const std::byte> labels) {
  const std::string name = "the built-in set of images";
  return join(read_idx(images, name, 3), read_idx(labels, name, 1), name, name);
}

constexpr const char* kCifarTest = "test_batch.bin";
std::string cifar_batch(int number) { return fmt::format("data_batch_{}.bin", number); }
bool is_cifar(const path& folder) { return holds(folder, cifar_batch(1)) || holds(folder, kCifarTest); }

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

std::array<float, 256> centred(const LabelledImages& images, const ImageShape& shape, std::size_t channel) {
  const std::size_t plane = shape.height * shape.width;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < images.count(); ++i)
    for (const std::uint8_t pixel : std::span(images.pixels).subspan(i * shape.pixels() + channel * plane, plane))
      sum += pixel;
  const double mean = static_cast<double>(sum) / static_cast<double>(images.count() * plane);
  std::array<float, 256> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((static_cast<double>(i) - mean) / 255);
  return values;
}

ImageSet make_set(Portion train, Portion test) {
  if (train.shape != test.shape)
    refuse_file(test.name, fmt::format("holds images of another size than {}", train.name));
  ImageSet set;
  set.shape = train.shape;
  set.train = std::move(train.images);
  set.validation = keep_aside(set.train, set.pixels());
  set.test = std::move(test.images);
  for (std::size_t i = 0; i < set.train.count(); ++i)
    set.of_class[set.train.labels[i]].push_back(static_cast<std::uint32_t>(i));
  for (std::size_t channel = 0; channel < set.shape.channels; ++channel)
    set.value_of.push_back(centred(set.train, set.shape, channel));
  return set;
}

ImageSet load_cifar(const path& folder) {
  Portion train{{}, kCifarShape, (folder / cifar_batch(1)).string()};
  Portion test{{}, kCifarShape, (folder / kCifarTest).string()};
  for (int number = 1; number <= kCifarBatches; ++number) read_cifar(folder / cifar_batch(number), train.images);
  read_cifar(test.name, test.images);
  return make_set(std::move(train), std::move(test));
}

ImageSet load(const std::string& folder) {
  if (folder.empty()) {
    const ShippedImages shipped = shipped_images();
    return make_set(unpack(shipped.train_images, shipped.train_labels),
                    unpack(shipped.test_images, shipped.test_labels));
  }
  if (is_cifar(folder)) return load_cifar(folder);
  Portion train = read_grey(folder, "train");
  return make_set(std::move(train), read_grey(folder, "t10k"));
}

std::vector<path> files_of(const std::string& data) {
  const path folder = data;
  std::vector<path> files;
  if (is_cifar(folder)) {
    for (int number = 1; number <= kCifarBatches; ++number) files.push_back(folder / cifar_batch(number));
    files.push_back(folder / kCifarTest);
    return files;
  }
  for (const char* part : {"train", "t10k"}) {
    files.push_back(find_images(folder, part));
    files.push_back(find_labels(folder, part));
  }
  return files;
}

}  // namespace

bool holds_image_set(const path& folder) {
  if (is_cifar(folder)) return true;
  for (const std::string part : {"train", "t10k"})
    for (const std::string kind : {"images-idx3-ubyte", "labels-idx1-ubyte"})
      if (holds(folder, part + "-" + kind) || holds(folder, part + "-" + kind + ".gz")) return true;
  return false;
}

std::vector<path> image_files(const base::Settings& settings) { return data_files(settings, files_of); }

void ImageSet::copy(const LabelledImages& from, std::size_t image, std::span<float> values, Move move) const {
  const auto height = static_cast<int>(shape.height), width = static_cast<int>(shape.width);
  const std::uint8_t* plane = from.pixels.data() + image * pixels();
  float* to = values.data();
  for (std::size_t channel = 0; channel < shape.channels; ++channel, plane += height * width)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const int from_y = y - move.down, moved_x = x - move.right,
                  from_x = move.mirrored ? width - 1 - moved_x : moved_x;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        *to++ = value_of[channel][inside ? plane[from_y * width + from_x] : 0];
      }
}

std::shared_ptr<const ImageSet> load_image_set(const std::string& folder) {
  static SharedData<ImageSet> sets;
  return sets.get(folder, [&] { return load(folder); });
}

}  // namespace flockstep::tasks
