#include "tasks/images/image_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tasks/data_file.h"
#include "tasks/shared_data.h"

namespace flockstep::tasks {
namespace {

using std::filesystem::path;

constexpr std::size_t kTestEvery = 5, kValidateEvery = 10;
constexpr std::array<std::string_view, 3> kEndings{".jpg", ".jpeg", ".png"};

bool is_picture(const path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

// Sorted; without what is hidden.
template <typename Wanted>
std::vector<std::string> names_in(const path& folder, const Wanted& wanted) {
  std::vector<std::string> names;
  std::error_code code;
  for (auto entry = std::filesystem::directory_iterator(folder, code);
       !code && entry != std::filesystem::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && wanted(*entry)) names.push_back(std::move(name));
  }
  if (code) refuse_file(folder.string(), fmt::format("cannot be read: {}", code.message()));
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> folders_in(const path& folder) {
  return names_in(folder, [](const auto& entry) {
    std::error_code code;
    return entry.is_directory(code);
  });
}

std::vector<std::string> pictures_in(const path& folder) {
  std::vector<std::string> names = names_in(folder, [](const auto& entry) {
    std::error_code code;
    return is_picture(entry.path()) && entry.is_regular_file(code);
  });
  if (names.empty())
    refuse_file(folder.string(), "holds no picture (*.jpg, *.jpeg, *.png): each folder is a class, and needs some");
  return names;
}

// Where the classes are: a folder each for training and for the test, or one for both.
struct Roots {
  path train, test;
  std::vector<std::string> classes;

  bool is_split() const { return train != test; }
};

Roots roots_of(const path& folder) {
  const auto holds = [&](const char* name) {
    std::error_code code;
    return std::filesystem::is_directory(folder / name, code);
  };
  if (holds("train") != holds("val"))
    refuse_file(folder.string(),
                fmt::format("holds {} without {}", holds("train") ? "train" : "val", holds("train") ? "val" : "train"));
  Roots roots{folder, folder, {}};
  if (holds("train")) roots = {folder / "train", folder / "val", {}};
  roots.classes = folders_in(roots.train);
  if (roots.classes.size() < 2)
    refuse_file(roots.train.string(),
                fmt::format("holds {} of pictures: each is a class, and there must be two of them at least",
                            roots.classes.empty() ? "no folder" : "one folder"));
  if (const auto others = folders_in(roots.test); others != roots.classes) {
    std::vector<std::string> different;
    std::ranges::set_symmetric_difference(roots.classes, others, std::back_inserter(different));
    refuse_file(folder.string(), fmt::format("has the class {} in only one of train and val", different.front()));
  }
  return roots;
}

void add(ImageFolder::Part& part, std::string file, std::size_t label) {
  part.files.push_back(std::move(file));
  part.labels.push_back(static_cast<std::uint32_t>(label));
}

ImageFolder read_folder(const std::string& folder) {
  const Roots roots = roots_of(folder);
  ImageFolder images;
  images.classes = roots.classes;
  images.of_class.resize(roots.classes.size());
  images.train.folder = images.validation.folder = roots.train;
  images.test.folder = roots.test;
  for (std::size_t label = 0; label < images.classes.size(); ++label) {
    std::size_t seen = 0, kept = 0;
    for (std::string& file : pictures_in(roots.train / images.classes[label])) {
      if (!roots.is_split() && ++seen % kTestEvery == 0) {
        add(images.test, std::move(file), label);
      } else if (++kept % kValidateEvery == 0) {
        add(images.validation, std::move(file), label);
      } else {
        images.of_class[label].push_back(static_cast<std::uint32_t>(images.train.files.size()));
        add(images.train, std::move(file), label);
      }
    }
    if (roots.is_split())
      for (std::string& file : pictures_in(roots.test / images.classes[label]))
        add(images.test, std::move(file), label);
  }
  if (images.test.files.empty())
    refuse_file(folder,
                fmt::format("has no class with {} pictures, the last of which would be for the test", kTestEvery));
  return images;
}

}  // namespace

bool is_image_folder(const path& folder) {
  std::error_code code;
  return std::filesystem::is_directory(folder, code) && !folders_in(folder).empty();
}

std::shared_ptr<const ImageFolder> load_image_folder(const std::string& folder) {
  static SharedData<ImageFolder> folders;
  return folders.get(folder, [&] { return read_folder(folder); });
}

std::vector<path> class_folders(const std::string& folder) {
  const Roots roots = roots_of(folder);
  std::vector<path> folders;
  for (const std::string& name : roots.classes) {
    folders.push_back(roots.train / name);
    if (roots.is_split()) folders.push_back(roots.test / name);
  }
  return folders;
}

}  // namespace flockstep::tasks
