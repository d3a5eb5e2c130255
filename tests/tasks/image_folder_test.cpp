#include "tasks/images/image_folder.h"

#include <gtest/gtest.h>

#include "data_files.h"
#include "picture_files.h"
#include "tasks/vision/vision_data.h"

namespace flockstep::tasks {
namespace {

class PictureFolders : public test::TemporaryFolder {
 public:
  // So many pictures of each class: 000.jpg, 001.jpg, ...
  void add(const std::string& folder, int count, const std::string& ending = ".jpg") const {
    std::filesystem::create_directories(path() / folder);
    for (int i = 0; i < count; ++i) write(folder + "/" + numbered(i) + ending, jpeg_bytes());
  }
  static std::string numbered(int i) { return (i < 10 ? "00" : "0") + std::to_string(i); }
};

std::vector<std::string> files_of(const ImageFolder& images, const ImageFolder::Part& part) {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < part.files.size(); ++i) {
    EXPECT_TRUE(exists(images.file(part, i)));
    files.push_back(images.classes[part.labels[i]] + "/" + part.files[i]);
  }
  return files;
}

using Names = std::vector<std::string>;

TEST(ImageFolder, trainAndValHaveTheClassesInTheOrderOfTheirNames) {
  const PictureFolders folders;
  for (const std::string name : {"zebra", "ant", "newt"}) {
    folders.add("train/" + name, 11, ".JPEG");
    folders.add("val/" + name, 2, ".png");
  }
  folders.write("train/ant/notes.txt", "no picture");
  std::filesystem::create_directories(folders.path() / "train" / ".hidden");
  const auto images = load_image_folder(folders.string());
  EXPECT_EQ(images->classes, (Names{"ant", "newt", "zebra"}));
  EXPECT_EQ(images->train.files.size(), 30u);
  EXPECT_EQ(files_of(*images, images->validation), (Names{"ant/009.JPEG", "newt/009.JPEG", "zebra/009.JPEG"}));
  EXPECT_EQ(files_of(*images, images->test).front(), "ant/000.png");
  EXPECT_EQ(images->test.files.size(), 6u);
  for (std::size_t label = 0; label < 3; ++label) {
    EXPECT_EQ(images->of_class[label].size(), 10u);
    for (const std::uint32_t picture : images->of_class[label]) EXPECT_EQ(images->train.labels[picture], label);
  }
  EXPECT_EQ(load_image_folder(folders.string()), images) << "read once";
  EXPECT_EQ(class_folders(folders.string()).size(), 6u);
}

TEST(ImageFolder, withoutThemEveryFifthPictureIsForTheTest) {
  const PictureFolders folders;
  folders.add("b", 13);
  folders.add("a", 4);
  const auto images = load_image_folder(folders.string());
  EXPECT_EQ(files_of(*images, images->test), (Names{"b/004.jpg", "b/009.jpg"}));
  EXPECT_EQ(files_of(*images, images->validation), (Names{"b/011.jpg"}));  // the tenth of the others
  EXPECT_EQ(images->train.files.size(), 14u);
  EXPECT_EQ(class_folders(folders.string()).size(), 2u);
}

TEST(ImageFolder, whatIsMissingIsSaidInOneSentence) {
  const PictureFolders folders;
  const std::string root = folders.string();
  const auto refused = [&] { return refusal([&] { load_image_folder(root); }); };
  EXPECT_FALSE(is_image_folder(root));
  folders.add("one", 9);
  EXPECT_TRUE(is_image_folder(root));
  EXPECT_EQ(refused(), root + " holds one folder of pictures: each is a class, and there must be two of them at least");
  folders.add("two", 0);
  EXPECT_EQ(refused(), root + "/two holds no picture (*.jpg, *.jpeg, *.png): each folder is a class, and needs some");
  folders.add("two", 1);
  EXPECT_EQ(refused(), "");
  std::filesystem::remove_all(folders.path() / "one");
  folders.add("one", 4);
  EXPECT_EQ(refused(), root + " has no class with 5 pictures, the last of which would be for the test");
  folders.add("train/one", 1);
  EXPECT_EQ(refused(), root + " holds train without val");
  folders.add("train/two", 1);
  folders.add("val/one", 1);
  folders.add("val/three", 1);
  EXPECT_EQ(refused(), root + " has the class three in only one of train and val");
}

// 16 x 8 pixels: (200, 30, 20) on the left, (20, 40, 220) on the right.
TEST(VisionData, picturesAreDecodedCroppedAndCentredWhenTheyAreAskedFor) {
  if (!build_reads(jpeg_bytes())) GTEST_SKIP() << "this build reads no JPEG";
  const PictureFolders folders;
  for (const std::string name : {"a", "b", "c"}) folders.add(name, 5);
  const auto data = load_vision_data(vision_options_of({{"data", folders.string()}, {"side", "8"}}, 1, 0));
  EXPECT_EQ(data->shape(), (ImageShape{3, 8, 8}));
  EXPECT_EQ(data->training().of_class.size(), 3u);
  EXPECT_EQ(data->labels(train::Split::test).size(), 3u);
  std::vector<float> values(data->shape().pixels());
  data->copy(train::Split::test, 1, values);
  EXPECT_NEAR(values[0], (200 / 255.0 - 0.485) / 0.229, 0.1);
  EXPECT_NEAR(values[7], (20 / 255.0 - 0.485) / 0.229, 0.1);
  EXPECT_NEAR(values[64], (30 / 255.0 - 0.456) / 0.224, 0.1);
  EXPECT_NEAR(values[191], (220 / 255.0 - 0.406) / 0.225, 0.1);

  const std::string broken = folders.write("b/004.jpg", jpeg_bytes().substr(0, 200));
  EXPECT_TRUE(refusal([&] {
                data->copy(train::Split::test, 1, values);
              }).starts_with(broken + " is no JPEG image that can be read: "));
  data->copy(train::Split::test, 0, values);
}

}  // namespace
}  // namespace flockstep::tasks
