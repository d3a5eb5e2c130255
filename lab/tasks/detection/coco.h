// Pictures with boxes in the format of COCO: a folder that holds
//   annotations/instances_train*.json    annotations/instances_val*.json
// and pictures in folders that are called what stands behind `instances_`: train2017/ and val2017/, for example.
//
// Annotations are read at once, pictures when they are asked for. Of the training pictures every tenth is kept aside
// for validation.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tasks/detection/sample.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks {

struct AnnotatedPicture {
  std::string file;  // within the folder of pictures
  std::size_t width = 0, height = 0;
  std::vector<Object> objects;  // in pixels of the file, as they are annotated
};

// One file of annotations. Labels count the categories in the order of their numbers in the file.
struct Annotations {
  std::vector<std::int64_t> categories;
  std::vector<AnnotatedPicture> pictures;
};

// `name` is for sentences. Throws Error{bad_file} that names the entry.
Annotations parse_annotations(std::span<const std::byte> file, const std::string& name);

// What can be learned: boxes end where the picture ends, and those without an area, of which COCO has a few, are left
// out. Evaluations take all as they are annotated, like COCO's own.
std::vector<Object> learnable_objects(const AnnotatedPicture& picture);

// The picture in the upper left corner of a square of `side` pixels, as large as it fits, and its objects there.
Sample fit(const Picture& picture, std::span<const Object> objects, std::size_t side, bool mirrored);

// Throws Error{bad_file}; so does asking for a picture. `mirrors`: every other training picture is mirrored.
std::unique_ptr<DetectionData> load_coco(const std::string& folder, std::size_t side, bool mirrors);

// The two files of annotations. Throws Error{bad_file} where they are not there.
std::vector<std::filesystem::path> annotation_files(const std::string& folder);
// These, and the two folders of pictures in place of the pictures, of which COCO has 123,000.
std::vector<std::filesystem::path> coco_files(const std::string& folder);

}  // namespace flockstep::tasks
