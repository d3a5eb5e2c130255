#include "tasks/vision/vision_data.h"

#include "tasks/data_file.h"
#include "tasks/images/crop.h"
#include "tasks/images/image_folder.h"

namespace flockstep::tasks {
namespace {

constexpr int kMoveBy = 8;  // a side divided by this is how far images are moved: 4 pixels of 32

class InMemory final : public VisionData {
 public:
  InMemory(std::shared_ptr<const ImageSet> set, bool varies) : set_(std::move(set)), varies_(varies) {}

  ImageShape shape() const override { return set_->shape; }
  TrainingLabels training() const override { return set_->training(); }
  std::span<const std::uint32_t> labels(train::Split split) const override { return part(split).labels; }
  void copy_varied(std::size_t image, base::Random& random, std::span<float> values) const override {
    const int distance = static_cast<int>(set_->shape.width) / kMoveBy;
    set_->copy(set_->train, image, values, varies_ ? draw_move(random, distance) : Move{});
  }
  void copy(train::Split split, std::size_t image, std::span<float> values) const override {
    set_->copy(part(split), image, values);
  }

 private:
  const LabelledImages& part(train::Split split) const {
    return split == train::Split::test ? set_->test : set_->validation;
  }

  std::shared_ptr<const ImageSet> set_;
  bool varies_;
};

class InFolders final : public VisionData {
 public:
  InFolders(std::shared_ptr<const ImageFolder> images, std::size_t side, bool varies)
      : images_(std::move(images)), side_(side), varies_(varies) {}

  ImageShape shape() const override { return {3, side_, side_}; }
  TrainingLabels training() const override { return {images_->train.labels, images_->of_class}; }
  std::span<const std::uint32_t> labels(train::Split split) const override { return part(split).labels; }
  void copy_varied(std::size_t image, base::Random& random, std::span<float> values) const override {
    const Picture picture = read_picture(images_->file(images_->train, image));
    const auto& [width, height, pixels] = picture;
    resample(picture, varies_ ? draw_crop(width, height, random) : central_crop(width, height), side_, values);
  }
  void copy(train::Split split, std::size_t image, std::span<float> values) const override {
    const Picture picture = read_picture(images_->file(part(split), image));
    resample(picture, central_crop(picture.width, picture.height), side_, values);
  }

 private:
  const ImageFolder::Part& part(train::Split split) const {
    return split == train::Split::test ? images_->test : images_->validation;
  }

  std::shared_ptr<const ImageFolder> images_;
  std::size_t side_;
  bool varies_;
};

}  // namespace

std::unique_ptr<VisionData> load_vision_data(const VisionOptions& options) {
  if (holds_pictures(options.data))
    return std::make_unique<InFolders>(load_image_folder(options.data), options.side, options.augment);
  return std::make_unique<InMemory>(load_image_set(options.data), options.augment);
}

std::vector<std::filesystem::path> vision_files(const base::Settings& settings) {
  const auto given = settings.find("data");
  if (given != settings.end() && holds_pictures(given->second)) return class_folders(given->second);
  return image_files(settings);
}

}  // namespace flockstep::tasks
