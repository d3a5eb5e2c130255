#include "tasks/detection/coco.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "data_files.h"
#include "picture_files.h"
#include "tasks/detection/detection.h"

namespace flockstep::tasks::coco_test {
namespace {

const std::string kGood = R"({"info": {"year": 2017}, "categories": [{"id": 7, "name": "cat"}, {"id": 3}],
 "images": [{"id": 5, "file_name": "a.png", "width": 4, "height": 2}, {"id": 9, "file_name": "b.png", "width": 2, "height": 4}],
 "annotations": [{"image_id": 9, "category_id": 7, "bbox": [0.5, 1, 1, 2.5], "iscrowd": 0, "segmentation": [[1, 2, 3]]},
  {"image_id": 5, "category_id": 3, "bbox": [3, 0, 9, 1], "iscrowd": 1}, {"image_id": 5, "category_id": 7, "bbox": [1, 1, 0, 1]}]})";

Annotations parse(const std::string& text) { return parse_annotations(as_file(text), "the file"); }
std::string refusal_of(const std::string& text) {
  return refusal([&] { parse(text); });
}
std::string with(std::string_view part, std::string_view other) {
  std::string text = kGood;
  const std::size_t place = text.find(part);
  EXPECT_NE(place, std::string::npos) << part;
  return text.replace(place, part.size(), other);
}

TEST(CocoAnnotations, belongToTheirPicturesUnderLabelsInOrder) {
  const Annotations all = parse(kGood);
  EXPECT_EQ(all.categories, (std::vector<std::int64_t>{3, 7}));
  ASSERT_EQ(all.pictures.size(), 2u);
  EXPECT_EQ(all.pictures[0].file, "a.png");
  const auto &first = all.pictures[0].objects, &second = all.pictures[1].objects;
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(first[0].box, (Box{3, 0, 12, 1}));
  EXPECT_EQ(first[1].box, (Box{1, 1, 1, 2}));
  EXPECT_EQ(second[0].box, (Box{0.5, 1, 1.5, 3.5}));
  EXPECT_TRUE(first[0].label == 0 && first[0].is_crowd);
  EXPECT_TRUE(second[0].label == 1 && !second[0].is_crowd);
}

TEST(CocoAnnotations, boxesToLearnEndWithThePictureAndHaveAnArea) {
  const Annotations all = parse(kGood);
  const auto objects = learnable_objects(all.pictures[0]);
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].box, (Box{3, 0, 4, 1}));
  EXPECT_TRUE(objects[0].is_crowd);
  for (const std::string box : {"[5, 0, 1, 1]", "[-3, 0, 3, 1]", "[1, 1, -1, 1]", "[0, 0, 0.0001, 1]"})
    EXPECT_TRUE(learnable_objects(parse(with("[3, 0, 9, 1]", box)).pictures[0]).empty()) << box;
}

TEST(CocoAnnotations, whatIsWrongIsToldWithItsEntry) {
  EXPECT_EQ(refusal_of(kGood), "");
  EXPECT_EQ(refusal_of(with("\"b.png\"", "\"x/\\u00e4 \\u00a0\\u4e00.png\"")), "");
  struct Case {
    std::string part, other, said;
  };
  std::vector<Case> wrong{
      {"0.5", "1e999", "JSON that can be read"},
      {"\"images\"", "\"pictures\"", "no list of images"},
      {"\"id\": 3", "\"id\": 7", "two categories by the same id"},
      {"{\"id\": 3}", "4", "category number 2 is not an object"},
      {"\"id\": 9", "\"id\": 5", "image number 2 has the id of another"},
      {"\"width\": 2", "\"width\": 0", "image number 2 has a wrong width"},
      {"\"width\": 2", "\"width\": 99999999999", "image number 2 has a wrong width"},
      {"\"width\": 2, ", "", "image number 2 has no width"},
      {"\"image_id\": 9", "\"image_id\": 8", "annotation number 1 is of an image that the file does not name"},
      {"\"category_id\": 3", "\"category_id\": 4", "annotation number 2 is of a category that the file does not name"},
      {"\"iscrowd\": 0", "\"iscrowd\": 2", "annotation number 1 has a wrong iscrowd"},
  };
  for (const std::string id : {"\"3\"", "-3", "18446744073709551615", "3.5"})
    wrong.push_back({"\"id\": 3", "\"id\": " + id, "category number 2 has a wrong id"});
  for (const std::string name : {"\"/etc/passwd\"", "\"../a.png\"", "\"x/../../a.png\"", "\"\"", "7", "\"a\\u0000b\"",
                                 "\"a\\nb\"", "\"\\u001b[2J\"", "\"a\\u007f\"", "\"\\u009b2J\"", "\"a\\u0085\""})
    wrong.push_back({"\"b.png\"", name, "image number 2 has a wrong file_name"});
  for (const std::string box : {"[1, 2, 3]", "[1, 2, 3, 4, 5]", "7", "[1, 2, null, 4]", "[1, 2, 1e300, 4]", "{}"})
    wrong.push_back({"[0.5, 1, 1, 2.5]", box, "annotation number 1 has a wrong bbox"});
  for (const std::string whole : {"{", "\xff\xfe"}) wrong.push_back({kGood, whole, "JSON that can be read"});
  for (const std::string whole : {"[]", "3"}) wrong.push_back({kGood, whole, "no list of categories"});
  wrong.push_back({kGood, R"({"categories": [], "images": [], "annotations": []})", "names no categories"});
  wrong.push_back({kGood, R"({"categories": [{"id": 1}], "images": [], "annotations": []})", "names no images"});
  for (const auto& [part, other, said] : wrong)
    EXPECT_NE(refusal_of(with(part, other)).find(said), std::string::npos) << other << " in place of " << part;
}

TEST(CocoAnnotations, noDamageDoesMoreThanASentence) {
  refused_of_damaged(kGood, 4000, "the file ", [](const std::string& text) {
    const Annotations all = parse(text);
    for (const AnnotatedPicture& picture : all.pictures)
      for (const Object& object : learnable_objects(picture)) {
        EXPECT_LT(object.label, all.categories.size());
        EXPECT_GT(object.box.area(), 0);
        EXPECT_LE(object.box.right, static_cast<double>(picture.width));
      }
  });
  EXPECT_NE(refusal_of(std::string(1'000'000, '[')), "");
  EXPECT_NE(refusal_of("{\"categories\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}"), "");
}

TEST(Fitting, keepsTheShapeOfAPictureAndMovesItsBoxesAlong) {
  Picture picture{4, 2, {}};
  for (std::uint8_t i = 0; i < 8; ++i) picture.pixels.insert(picture.pixels.end(), {i, std::uint8_t(10 * i), 0});
  const std::vector<Object> objects{{.box = {1, 0, 2, 2}, .label = 4}};
  const auto reds = [](const Sample& sample) {
    const auto first = std::span(sample.pixels).first(sample.pixels.size() / 3);
    return std::vector<int>(first.begin(), first.end());
  };
  const Sample same = fit(picture, objects, 4, false);
  EXPECT_EQ(reds(same), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 128, 128, 128, 128, 128, 128, 128, 128}));
  EXPECT_EQ(same.pixels[16 + 3], 30);
  EXPECT_EQ(same.objects[0].box, (Box{1, 0, 2, 2}));
  EXPECT_EQ(same.objects[0].label, 4u);
  const Sample mirrored = fit(picture, objects, 4, true);
  EXPECT_EQ(reds(mirrored), (std::vector<int>{3, 2, 1, 0, 7, 6, 5, 4, 128, 128, 128, 128, 128, 128, 128, 128}));
  EXPECT_EQ(mirrored.objects[0].box, (Box{2, 0, 3, 2}));
  const Sample half = fit(picture, objects, 2, false);  // means of four pixels, rounded
  EXPECT_EQ(reds(half), (std::vector<int>{3, 5, 128, 128}));
  EXPECT_EQ(half.objects[0].box, (Box{0.5, 0, 1, 1}));
  const Sample twice = fit(picture, objects, 8, false);
  EXPECT_EQ(reds(twice)[3], 1);
  EXPECT_EQ(reds(twice)[8 * 3 + 7], 7);
  EXPECT_EQ(twice.objects[0].box, (Box{2, 0, 4, 4}));
}

// A folder of twelve training pictures and one for the test; number i shows category i mod 3.
class CocoFolder : public testing::Test, protected test::TemporaryFolder {
 protected:
  static constexpr const char *kTrain = "annotations/instances_train2017.json",
                              *kVal = "annotations/instances_val.json";

  CocoFolder() {
    for (const char* sub : {"annotations", "train2017", "val"}) base::make_directory(*this / sub);
    nlohmann::json categories, images, annotations;
    for (int i = 0; i < 12; ++i) {
      if (i < 3) categories.push_back({{"id", i}});
      const std::string name = std::to_string(i) + ".png";
      write("train2017/" + name, png_bytes(2, 1, std::string(6, static_cast<char>(i))));
      images.push_back({{"id", i}, {"file_name", name}, {"width", 2}, {"height", 1}});
      annotations.push_back({{"image_id", i}, {"category_id", i % 3}, {"bbox", {0, 0, 1, 1}}});
    }
    train_ = {{"categories", categories}, {"images", images}, {"annotations", annotations}};
    val_ = train_;
    val_["images"] = {{{"id", 0}, {"file_name", "x.png"}, {"width", 2}, {"height", 1}}};
    val_["annotations"] = nlohmann::json::array();
    write("val/x.png", png_bytes(2, 1, "abcdef"));
    save();
  }
  void SetUp() override {
    if (!build_reads(png_bytes(1, 1, "abc"))) GTEST_SKIP() << "built without libpng";
  }
  void save() const {
    write(kTrain, train_.dump());
    write(kVal, val_.dump());
  }
  // The first pixel of each training picture that is drawn for these labels, which tells its number.
  std::set<int> drawn(const std::vector<std::size_t>& labels) const {
    const auto data = load_coco(string(), 2, false);
    base::Random random(1, base::Purpose::test);
    std::set<int> pictures;
    for (int i = 0; i < 200; ++i) pictures.insert(data->draw(random, labels).pixels[0]);
    return pictures;
  }

  nlohmann::json train_, val_;
  const std::vector<std::size_t> all_labels_{0, 1, 2};
};

TEST_F(CocoFolder, hasTrainingTestAndValidationApart) {
  const auto data = load_coco(string(), 2, false);
  EXPECT_EQ(data->labels(), 3u);
  EXPECT_EQ(data->count(train::Split::test), 1u);
  ASSERT_EQ(data->count(train::Split::validation), 1u);
  EXPECT_EQ(data->at(train::Split::test, 0).pixels[0], 'a');
  EXPECT_EQ(data->at(train::Split::validation, 0).pixels[0], 9);  // every tenth
  EXPECT_EQ(drawn(all_labels_), (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11}));
  EXPECT_EQ(drawn({1}), (std::set<int>{1, 4, 7, 10}));
  EXPECT_EQ(coco_files(string()), (std::vector{*this / kTrain, *this / kVal, *this / "train2017", *this / "val"}));
}

TEST_F(CocoFolder, boxesAreCutForTrainingButNotForEvaluations) {
  for (auto& annotation : train_["annotations"]) annotation["bbox"][2] = 3;
  train_["annotations"][4]["iscrowd"] = 1;
  save();
  EXPECT_EQ(drawn({1}), (std::set<int>{1, 7, 10})) << "crowds are not drawn for a category";
  const auto data = load_coco(string(), 2, false);
  base::Random random(1, base::Purpose::test);
  EXPECT_EQ(data->draw(random, all_labels_).objects[0].box, (Box{0, 0, 2, 1}));
  EXPECT_EQ(data->at(train::Split::validation, 0).objects[0].box, (Box{0, 0, 3, 1}));
}

TEST_F(CocoFolder, trainingPicturesAreMirroredEveryOtherTime) {
  const auto data = load_coco(string(), 2, true);
  base::Random random(1, base::Purpose::test);
  int mirrored = 0;
  for (int i = 0; i < 400; ++i) mirrored += data->draw(random, all_labels_).objects[0].box.left > 0 ? 1 : 0;
  EXPECT_NEAR(mirrored, 200, 50);
}

TEST_F(CocoFolder, whatDoesNotFitTogetherIsRefusedByName) {
  const auto expect_refusal = [&](const std::string& said) {
    const std::string sentence = refusal([&] { load_coco(string(), 12, false)->at(train::Split::test, 0); });
    EXPECT_NE(sentence.find(said), std::string::npos) << sentence;
    EXPECT_TRUE(sentence.starts_with(string())) << sentence;
    save();
  };
  write("val/x.png", png_bytes(1, 2, "abcdef"));
  expect_refusal("/val/x.png is 1 x 2 pixels, but annotated as 2 x 1");
  write("val/x.png", "text");
  expect_refusal("/val/x.png is neither a PNG nor a JPEG image");
  remove("val/x.png");
  expect_refusal("/val/x.png is not there");
  auto other = val_;
  other["categories"][2]["id"] = 4;
  write(kVal, other.dump());
  expect_refusal("/annotations/instances_val.json names other categories than " + (*this / kTrain).string());
  write(kVal, "");
  expect_refusal("/annotations/instances_val.json is empty");
  write("annotations/instances_val2.json", "");
  expect_refusal(" holds more than one annotations/instances_val*.json");
  remove("annotations/instances_val2.json");
  remove(kVal);
  expect_refusal(" holds no annotations/instances_val*.json");
  remove(kTrain);
  expect_refusal(" holds no annotations/instances_train*.json");
}

TEST_F(CocoFolder, needsAClassForEachCategoryAndAPictureForEachWorker) {
  DetectionOptions options;
  options.data = string();
  options.classes = 2;
  EXPECT_EQ(test::refusal([&] { load_detection_data(options); }),
            "--detection.classes takes 0, or at least the 3 of " + string() + ", not '2'");
  for (auto& annotation : train_["annotations"]) annotation["category_id"] = 1;
  save();
  EXPECT_EQ(refusal([&] { drawn({2}); }),
            string() + " has no training image with an object of one worker's categories: use --shard iid");
}

}  // namespace
}  // namespace flockstep::tasks::coco_test
