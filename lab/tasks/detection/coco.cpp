#include "tasks/detection/coco.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "tasks/data_file.h"
#include "tasks/shared_data.h"

namespace flockstep::tasks {
namespace {

using std::filesystem::path;

constexpr std::size_t kKeepAsideEvery = 10;
constexpr double kLeastSide = 1e-3;  // of a box to learn, in pixels: its logarithm must stay a number
constexpr std::string_view kPrefix = "instances_", kSuffix = ".json";

// Pictures that belong together, and where they are.
struct Portion {
  path folder;
  std::vector<AnnotatedPicture> pictures;
};

struct CocoSet {
  std::size_t labels = 0;
  Portion train, validation, test;
  std::vector<std::vector<std::uint32_t>> of_label;  // training pictures that show such an object, crowds aside

  const Portion& part(train::Split split) const { return split == train::Split::test ? test : validation; }
};

path find_annotations(const path& folder, const std::string& part) {
  std::vector<path> found;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "annotations", code)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(fmt::format("{}{}", kPrefix, part)) && name.ends_with(kSuffix)) found.push_back(entry.path());
  }
  const std::string wanted = fmt::format("annotations/{}{}*{}", kPrefix, part, kSuffix);
  if (found.empty()) refuse_file(folder.string(), fmt::format("holds no {}", wanted));
  if (found.size() > 1) refuse_file(folder.string(), fmt::format("holds more than one {}", wanted));
  return found.front();
}

path pictures_of(const path& folder, const path& annotations) {
  const std::string name = annotations.filename().string();
  return folder / name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
}

CocoSet load(const std::string& folder) {
  const path train_file = find_annotations(folder, "train"), test_file = find_annotations(folder, "val");
  Annotations train = parse_annotations(read_data_file(train_file), train_file.string());
  Annotations test = parse_annotations(read_data_file(test_file), test_file.string());
  if (train.categories != test.categories)
    refuse_file(test_file.string(), fmt::format("names other categories than {}", train_file.string()));
  CocoSet set;
  set.labels = train.categories.size();
  set.train.folder = set.validation.folder = pictures_of(folder, train_file);
  set.test = {pictures_of(folder, test_file), std::move(test.pictures)};
  for (std::size_t i = 0; i < train.pictures.size(); ++i) {
    const bool is_kept_aside = i % kKeepAsideEvery + 1 == kKeepAsideEvery;
    AnnotatedPicture& picture = train.pictures[i];
    if (!is_kept_aside) picture.objects = learnable_objects(picture);
    (is_kept_aside ? set.validation : set.train).pictures.push_back(std::move(picture));
  }
  set.of_label.resize(set.labels);
  for (std::size_t i = 0; i < set.train.pictures.size(); ++i)
    for (const Object& object : set.train.pictures[i].objects) {
      if (object.is_crowd) continue;
      auto& pictures = set.of_label[object.label];
      if (pictures.empty() || pictures.back() != i) pictures.push_back(static_cast<std::uint32_t>(i));
    }
  return set;
}

std::shared_ptr<const CocoSet> shared(const std::string& folder) {
  static SharedData<CocoSet> sets;
  return sets.get(folder, [&] { return load(folder); });
}

class Coco final : public DetectionData {
 public:
  Coco(const std::string& folder, std::size_t side, bool mirrors)
      : folder_(folder), set_(shared(folder)), side_(side), mirrors_(mirrors) {}

  std::size_t labels() const override { return set_->labels; }
  Sample draw(base::Random& random, std::span<const std::size_t> labels) const override {
    const auto below = [&](std::size_t bound) { return random.below(static_cast<std::uint32_t>(bound)); };
    std::size_t picture = 0;
    if (labels.size() == set_->labels) {
      picture = below(set_->train.pictures.size());
    } else {
      std::vector<std::size_t> shown;
      std::ranges::copy_if(labels, std::back_inserter(shown),
                           [&](std::size_t l) { return !set_->of_label[l].empty(); });
      if (shown.empty())
        refuse_file(folder_, "has no training image with an object of one worker's categories: use --shard iid");
      const auto& pictures = set_->of_label[shown[below(shown.size())]];
      picture = pictures[below(pictures.size())];
    }
    const bool mirrored = mirrors_ && random.below(2) == 1;
    return read(set_->train, picture, mirrored);
  }
  std::size_t count(train::Split split) const override { return set_->part(split).pictures.size(); }
  Sample at(train::Split split, std::size_t index) const override { return read(set_->part(split), index, false); }

 private:
  Sample read(const Portion& part, std::size_t index, bool mirrored) const {
    const AnnotatedPicture& annotated = part.pictures[index];
    const path file = part.folder / annotated.file;
    const Picture picture = read_picture(file);
    if (picture.width != annotated.width || picture.height != annotated.height)
      refuse_file(file.string(), fmt::format("is {} x {} pixels, but annotated as {} x {}", picture.width,
                                             picture.height, annotated.width, annotated.height));
    return fit(picture, annotated.objects, side_, mirrored);
  }

  std::string folder_;
  std::shared_ptr<const CocoSet> set_;
  std::size_t side_;
  bool mirrors_;
};

}  // namespace

std::vector<Object> learnable_objects(const AnnotatedPicture& picture) {
  const auto within = [](double place, std::size_t most) { return std::clamp(place, 0.0, static_cast<double>(most)); };
  std::vector<Object> objects;
  for (Object object : picture.objects) {
    Box& box = object.box;
    box = {within(box.left, picture.width), within(box.top, picture.height), within(box.right, picture.width),
           within(box.bottom, picture.height)};
    if (std::min(box.width(), box.height()) >= kLeastSide) objects.push_back(object);
  }
  return objects;
}

Sample fit(const Picture& picture, std::span<const Object> objects, std::size_t side, bool mirrored) {
  const std::size_t longer = std::max(picture.width, picture.height);
  // Of so many pixels of `from`, those under pixel `i` of what is left when `longer` is `side`; empty: outside.
  const auto under = [&](std::size_t i, std::size_t from) {
    const std::size_t begin = std::min(i * longer / side, from);
    const std::size_t end = std::min(std::max((i + 1) * longer / side, begin + 1), from);
    return std::array{begin, end};
  };
  Sample sample;
  sample.pixels.assign(kColours * side * side, 128);
  for (std::size_t row = 0; row < side; ++row)
    for (std::size_t column = 0; column < side; ++column) {
      const auto [top, bottom] = under(row, picture.height);
      const auto [left, right] = under(column, picture.width);
      const std::size_t count = (bottom - top) * (right - left);
      if (count == 0) continue;
      for (std::size_t c = 0; c < kColours; ++c) {
        std::size_t sum = count / 2;  // rounds
        for (std::size_t y = top; y < bottom; ++y)
          for (std::size_t x = left; x < right; ++x)
            sum += picture.pixels[(y * picture.width + (mirrored ? picture.width - 1 - x : x)) * kColours + c];
        sample.pixels[(c * side + row) * side + column] = static_cast<std::uint8_t>(sum / count);
      }
    }
  const double scale = static_cast<double>(side) / static_cast<double>(longer);
  const auto width = static_cast<double>(picture.width);
  for (Object object : objects) {
    const Box& box = object.box;
    const double left = mirrored ? width - box.right : box.left, right = mirrored ? width - box.left : box.right;
    object.box = {scale * left, scale * box.top, scale * right, scale * box.bottom};
    sample.objects.push_back(object);
  }
  return sample;
}

std::unique_ptr<DetectionData> load_coco(const std::string& folder, std::size_t side, bool mirrors) {
  return std::make_unique<Coco>(folder, side, mirrors);
}

std::vector<path> annotation_files(const std::string& folder) {
  return {find_annotations(folder, "train"), find_annotations(folder, "val")};
}

std::vector<path> coco_files(const std::string& folder) {
  const std::vector<path> annotations = annotation_files(folder);
  std::vector<path> files = annotations;
  for (const path& file : annotations) files.push_back(pictures_of(folder, file));
  return files;
}

}  // namespace flockstep::tasks
