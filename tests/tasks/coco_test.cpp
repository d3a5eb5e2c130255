#include "tasks/detection/coco.h"

#include <gtest/gtest.h>

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
  ASSERT_EQ(all.pictures[0].objects.size(), 2u);
  EXPECT_EQ(all.pictures[0].objects[0].box, (Box{3, 0, 12, 1}));
  EXPECT_EQ(all.pictures[0].objects[1].box, (Box{1, 1, 1, 2}));
  EXPECT_EQ(all.pictures[0].objects[0].label, 0u);
  EXPECT_TRUE(all.pictures[0].objects[0].is_crowd);
  ASSERT_EQ(all.pictures[1].objects.size(), 1u);
  EXPECT_EQ(all.pictures[1].objects[0].box, (Box{0.5, 1, 1.5, 3.5}));
  EXPECT_EQ(all.pictures[1].objects[0].label, 1u);
  EXPECT_FALSE(all.pictures[1].objects[0].is_crowd);
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
  const std::string intro = "the file is not a file of COCO annotations: ";
  EXPECT_EQ(refusal_of(kGood), "");
  EXPECT_EQ(refusal_of("{"), "the file is not JSON that can be read: it is damaged or cut short");
  EXPECT_EQ(refusal_of("\xff\xfe"), "the file is not JSON that can be read: it is damaged or cut short");
  EXPECT_EQ(refusal_of(with("0.5", "1e999")), "the file is not JSON that can be read: it is damaged or cut short");
  EXPECT_EQ(refusal_of("[]"), intro + "it has no list of categories");
  EXPECT_EQ(refusal_of("3"), intro + "it has no list of categories");
  EXPECT_EQ(refusal_of(with("\"images\"", "\"pictures\"")), intro + "it has no list of images");
  EXPECT_EQ(refusal_of(R"({"categories": [], "images": [], "annotations": []})"), "the file names no categories");
  EXPECT_EQ(refusal_of(R"({"categories": [{"id": 1}], "images": [], "annotations": []})"), "the file names no images");
  EXPECT_EQ(refusal_of(R"({"categories": [{"id": 1}], "images": {}, "annotations": []})"),
            intro + "it has no list of images");
  EXPECT_EQ(refusal_of(with("\"id\": 3", "\"id\": 7")), "the file names two categories by the same id");
  EXPECT_EQ(refusal_of(with("\"id\": 3", "\"id\": \"3\"")), intro + "category number 2 has a wrong id");
  EXPECT_EQ(refusal_of(with("\"id\": 3", "\"id\": -3")), intro + "category number 2 has a wrong id");
  EXPECT_EQ(refusal_of(with("\"id\": 3", "\"id\": 18446744073709551615")), intro + "category number 2 has a wrong id");
  EXPECT_EQ(refusal_of(with("\"id\": 3", "\"id\": 3.5")), intro + "category number 2 has a wrong id");
  EXPECT_EQ(refusal_of(with("{\"id\": 3}", "4")), intro + "category number 2 is not an object");
  EXPECT_EQ(refusal_of(with("\"id\": 9", "\"id\": 5")), intro + "image number 2 has the id of another");
  EXPECT_EQ(refusal_of(with("\"width\": 2", "\"width\": 0")), intro + "image number 2 has a wrong width");
  EXPECT_EQ(refusal_of(with("\"width\": 2", "\"width\": 99999999999")), intro + "image number 2 has a wrong width");
  EXPECT_EQ(refusal_of(with("\"width\": 2, ", "")), intro + "image number 2 has no width");
  for (const std::string name : {"\"/etc/passwd\"", "\"../a.png\"", "\"x/../../a.png\"", "\"\"", "7", "\"a\\u0000b\"",
                                 "\"a\\nb\"", "\"\\u001b[2J\"", "\"a\\u007f\"", "\"\\u009b2J\"", "\"a\\u0085\""})
    EXPECT_EQ(refusal_of(with("\"b.png\"", name)), intro + "image number 2 has a wrong file_name") << name;
  EXPECT_EQ(refusal_of(with("\"b.png\"", "\"x/\\u00e4 \\u00a0\\u4e00.png\"")), "");
  EXPECT_EQ(refusal_of(with("\"image_id\": 9", "\"image_id\": 8")),
            intro + "annotation number 1 is of an image that the file does not name");
  EXPECT_EQ(refusal_of(with("\"category_id\": 3", "\"category_id\": 4")),
            intro + "annotation number 2 is of a category that the file does not name");
  const std::string wrong_box = intro + "annotation number 1 has a wrong bbox: it takes left, top, width and height";
  for (const std::string box : {"[1, 2, 3]", "[1, 2, 3, 4, 5]", "7", "[1, 2, null, 4]", "[1, 2, 1e300, 4]", "{}"})
    EXPECT_EQ(refusal_of(with("[0.5, 1, 1, 2.5]", box)), wrong_box) << box;
  EXPECT_EQ(refusal_of(with("\"iscrowd\": 0", "\"iscrowd\": 2")), intro + "annotation number 1 has a wrong iscrowd");
}

TEST(CocoAnnotations, noDamageDoesMoreThanASentence) {
  base::Random random(1, base::Purpose::test);
  for (int i = 0; i < 4000; ++i) {
    const std::string text = damaged(kGood, random);
    const std::string sentence = refusal([&] {
      const Annotations all = parse(text);
      for (const AnnotatedPicture& picture : all.pictures)
        for (const Object& object : learnable_objects(picture)) {
          EXPECT_LT(object.label, all.categories.size());
          EXPECT_GT(object.box.area(), 0);
          EXPECT_LE(object.box.right, static_cast<double>(picture.width));
        }
    });
    EXPECT_TRUE(sentence.empty() || sentence.starts_with("the file ")) << sentence;
    EXPECT_EQ(sentence.find('\n'), std::string::npos);
  }
  EXPECT_NE(refusal_of(std::string(1'000'000, '[')), "");
  EXPECT_NE(refusal_of("{\"categories\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}"), "");
}

TEST(Fitting, keepsTheShapeOfAPictureAndMovesItsBoxesAlong) {
  Picture picture{4, 2, {}};
  for (std::uint8_t i = 0; i < 8; ++i) picture.pixels.insert(picture.pixels.end(), {i, std::uint8_t(10 * i), 0});
  const std::vector<Object> objects{{.box = {1, 0, 2, 2}, .label = 4}};
  const auto reds = [](const Sample& sample) {
    return std::vector<int>(sample.pixels.begin(),
                            sample.pixels.begin() + static_cast<std::ptrdiff_t>(sample.pixels.size() / 3));
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
struct CocoFiles : test::TemporaryFolder {
  CocoFiles() {
    for (const char* sub : {"annotations", "train2017", "val"}) base::make_directory(*this / sub);
    std::string images, annotations;
    for (int i = 0; i < 12; ++i) {
      const std::string id = std::to_string(i);
      write("train2017/" + id + ".png", png_bytes(2, 1, std::string(6, static_cast<char>(i))));
      images += (i == 0 ? "" : ", ") +
                (R"({"id": )" + id + R"(, "file_name": ")" + id + R"(.png", "width": 2, "height": 1})");
      annotations += (i == 0 ? "" : ", ") + (R"({"image_id": )" + id + R"(, "category_id": )" + std::to_string(i % 3) +
                                             R"(, "bbox": [0, 0, 1, 1]})");
    }
    const std::string categories = R"("categories": [{"id": 0}, {"id": 1}, {"id": 2}])";
    write("annotations/instances_train2017.json",
          "{" + categories + R"(, "images": [)" + images + R"(], "annotations": [)" + annotations + "]}");
    write("val/x.png", png_bytes(2, 1, "abcdef"));
    write("annotations/instances_val.json",
          "{" + categories +
              R"(, "images": [{"id": 0, "file_name": "x.png", "width": 2, "height": 1}], "annotations": []})");
  }
};

TEST(CocoFolders, trainingTestAndValidationAreApart) {
  const CocoFiles files;
  if (!build_reads(png_bytes(1, 1, "abc"))) GTEST_SKIP() << "built without libpng";
  const auto data = load_coco(files.string(), 2, false);
  EXPECT_EQ(data->labels(), 3u);
  EXPECT_EQ(data->count(train::Split::test), 1u);
  ASSERT_EQ(data->count(train::Split::validation), 1u);
  EXPECT_EQ(data->at(train::Split::test, 0).pixels[0], 'a');
  EXPECT_EQ(data->at(train::Split::validation, 0).pixels[0], 9);  // every tenth
  base::Random random(1, base::Purpose::test);
  const auto drawn = [&](const std::vector<std::size_t>& labels) {
    std::set<int> pictures;
    for (int i = 0; i < 200; ++i) pictures.insert(data->draw(random, labels).pixels[0]);
    return pictures;
  };
  EXPECT_EQ(drawn({0, 1, 2}), (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11}));
  EXPECT_EQ(drawn({1}), (std::set<int>{1, 4, 7, 10}));
}

TEST(CocoFolders, theirFilesAreToldWithoutNamingEveryPicture) {
  const CocoFiles files;
  const std::filesystem::path folder = files.string();
  EXPECT_EQ(coco_files(files.string()),
            (std::vector{folder / "annotations/instances_train2017.json", folder / "annotations/instances_val.json",
                         folder / "train2017", folder / "val"}));
}

TEST(CocoFolders, boxesAreCutForTrainingButNotForEvaluations) {
  const CocoFiles files;
  if (!build_reads(png_bytes(1, 1, "abc"))) GTEST_SKIP() << "built without libpng";
  const std::string train = "annotations/instances_train2017.json";
  std::string text = base::read_text(files.string() + "/" + train);
  for (std::size_t at = 0; (at = text.find("[0, 0, 1, 1]", at)) != std::string::npos; ++at) text[at + 7] = '3';
  files.write(train, text);
  const auto data = load_coco(files.string(), 2, false);
  base::Random random(1, base::Purpose::test);
  EXPECT_EQ(data->draw(random, std::vector<std::size_t>{0, 1, 2}).objects[0].box, (Box{0, 0, 2, 1}));
  EXPECT_EQ(data->at(train::Split::validation, 0).objects[0].box, (Box{0, 0, 3, 1}));
}

TEST(CocoFolders, trainingPicturesAreMirroredEveryOtherTime) {
  const CocoFiles files;
  if (!build_reads(png_bytes(1, 1, "abc"))) GTEST_SKIP() << "built without libpng";
  const auto data = load_coco(files.string(), 2, true);
  base::Random random(1, base::Purpose::test);
  int mirrored = 0;
  for (int i = 0; i < 400; ++i)
    mirrored += data->draw(random, std::vector<std::size_t>{0, 1, 2}).objects[0].box.left > 0 ? 1 : 0;
  EXPECT_NEAR(mirrored, 200, 50);
}

TEST(CocoFolders, whatDoesNotFitTogetherIsRefusedByName) {
  const CocoFiles files;
  const std::string folder = files.string();
  const auto refused = [&] {
    return refusal([&] {
      const auto data = load_coco(folder, 12, false);
      data->at(train::Split::test, 0);
    });
  };
  const std::string val = "annotations/instances_val.json";
  const auto good = base::read_text(folder + "/" + val);
  const auto rewrite = [&](std::string_view part, std::string_view other) {
    std::string text = good;
    files.write(val, text.replace(text.find(part), part.size(), other));
  };
  rewrite("{\"id\": 2}", "{\"id\": 4}");
  EXPECT_EQ(refused(),
            folder + "/" + val + " names other categories than " + folder + "/annotations/instances_train2017.json");
  files.write(val, "");
  EXPECT_EQ(refused(), folder + "/" + val + " is empty");
  files.write("annotations/instances_val2.json", "");
  EXPECT_EQ(refused(), folder + " holds more than one annotations/instances_val*.json");
  files.remove("annotations/instances_val2.json");
  files.remove(val);
  EXPECT_EQ(refused(), folder + " holds no annotations/instances_val*.json");
  EXPECT_EQ(refusal([&] { annotation_files(folder + "/nowhere"); }),
            folder + "/nowhere holds no annotations/instances_train*.json");
  files.write(val, good);
  files.remove("val/x.png");
  EXPECT_EQ(refused(), folder + "/val/x.png is not there");
  files.write("val/x.png", "text");
  EXPECT_EQ(refused(), folder + "/val/x.png is neither a PNG nor a JPEG image");
  if (!build_reads(png_bytes(1, 1, "abc"))) GTEST_SKIP() << "built without libpng";
  files.write("val/x.png", png_bytes(1, 2, "abcdef"));
  EXPECT_EQ(refused(), folder + "/val/x.png is 1 x 2 pixels, but annotated as 2 x 1");
}

TEST(CocoFolders, aNetworkWithTooFewClassesIsRefused) {
  const CocoFiles files;
  DetectionOptions options;
  options.data = files.string();
  options.classes = 2;
  try {
    load_detection_data(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "--detection.classes takes 0, or at least the 3 of " + files.string() + ", not '2'");
  }
}

TEST(CocoFolders, aWorkerWhoseCategoriesNoPictureShowsSaysSo) {
  const CocoFiles files;
  const std::string train = "annotations/instances_train2017.json";
  std::string text = base::read_text(files.string() + "/" + train);
  for (std::size_t at = 0; (at = text.find("\"category_id\": 2", at)) != std::string::npos; ++at) text[at + 15] = '1';
  files.write(train, text);
  base::Random random(1, base::Purpose::test);
  const auto data = load_coco(files.string(), 12, false);
  EXPECT_EQ(refusal([&] { data->draw(random, std::vector<std::size_t>{2}); }),
            files.string() + " has no training image with an object of one worker's categories: use --shard iid");
}

TEST(CocoFolders, picturesOfCrowdsAreNotDrawnForACategory) {
  const CocoFiles files;
  if (!build_reads(png_bytes(1, 1, "abc"))) GTEST_SKIP() << "built without libpng";
  const std::string train = "annotations/instances_train2017.json", part = "\"image_id\": 4, ";
  std::string text = base::read_text(files.string() + "/" + train);
  files.write(train, text.replace(text.find(part), part.size(), part + "\"iscrowd\": 1, "));
  base::Random random(1, base::Purpose::test);
  const auto data = load_coco(files.string(), 2, false);
  std::set<int> pictures;
  for (int i = 0; i < 200; ++i) pictures.insert(data->draw(random, std::vector<std::size_t>{1}).pixels[0]);
  EXPECT_EQ(pictures, (std::set<int>{1, 7, 10}));
}

}  // namespace
}  // namespace flockstep::tasks::coco_test
