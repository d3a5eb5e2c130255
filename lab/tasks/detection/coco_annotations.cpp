#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tasks/data_file.h"
#include "tasks/detection/coco.h"

namespace flockstep::tasks {
namespace {

using nlohmann::json;

// An entry of one of the lists, and how to speak of it.
struct Entry {
  const json& value;
  const std::string& file;
  const char* kind;
  std::size_t number;

  [[noreturn]] void refuse(const std::string& why) const {
    refuse_file(file, fmt::format("is not a file of COCO annotations: {} number {} {}", kind, number, why));
  }
  const json& field(const char* name) const {
    if (!value.is_object()) refuse("is not an object");
    const auto found = value.find(name);
    if (found == value.end()) refuse(fmt::format("has no {}", name));
    return *found;
  }
  std::int64_t integer(const char* name, std::int64_t least, std::int64_t most) const {
    const json& number = field(name);
    const bool fits = number.is_number_integer() &&
                      (!number.is_number_unsigned() || number.get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
    if (!fits || number.get<std::int64_t>() < least || number.get<std::int64_t>() > most)
      refuse(fmt::format("has a wrong {}", name));
    return number.get<std::int64_t>();
  }
};

constexpr std::int64_t kMostId = std::int64_t{1} << 62;

// A list under its name, as entries.
std::vector<Entry> list(const json& document, const std::string& file, const char* name, const char* kind) {
  const auto found = document.is_object() ? document.find(name) : document.end();
  if (!document.is_object() || found == document.end() || !found->is_array())
    refuse_file(file, fmt::format("is not a file of COCO annotations: it has no list of {}", name));
  std::vector<Entry> entries;
  for (const json& value : *found) entries.push_back({value, file, kind, entries.size() + 1});
  return entries;
}

// Outlines, which are most of a file, are dropped while it is read.
json parse(std::span<const std::byte> file, const std::string& name) {
  const auto keep = [](int depth, json::parse_event_t event, const json& value) {
    return !(event == json::parse_event_t::key && depth == 3 && value == "segmentation");
  };
  const auto* const text = reinterpret_cast<const char*>(file.data());
  try {
    return json::parse(text, text + file.size(), keep);
  } catch (const json::exception&) {  // its text quotes what may be no text at all
    refuse_file(name, "is not JSON that can be read: it is damaged or cut short");
  }
}

// Control characters, also those behind ASCII as UTF-8 writes them: a terminal that is shown the name would obey them.
bool has_control(const std::string& text) {
  unsigned char before = 0;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f || (before == 0xc2 && byte < 0xa0)) return true;
    before = byte;
  }
  return false;
}

std::string file_name_of(const Entry& entry) {
  const json& value = entry.field("file_name");
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const std::filesystem::path path(text);
  const bool leaves = path.is_absolute() || std::ranges::find(path, "..") != path.end();
  if (text.empty() || leaves || has_control(text)) entry.refuse("has a wrong file_name");
  return text;
}

Box box_of(const Entry& entry) {
  const json& value = entry.field("bbox");
  const bool is_box = value.is_array() && value.size() == 4 && std::ranges::all_of(value, [](const json& number) {
                        return number.is_number() && std::abs(number.get<double>()) < 1e9;
                      });
  if (!is_box) entry.refuse("has a wrong bbox: it takes left, top, width and height");
  const double left = value[0].get<double>(), top = value[1].get<double>();
  return {left, top, left + value[2].get<double>(), top + value[3].get<double>()};
}

}  // namespace

Annotations parse_annotations(std::span<const std::byte> file, const std::string& name) {
  const json document = parse(file, name);
  Annotations all;
  for (const Entry& entry : list(document, name, "categories", "category"))
    all.categories.push_back(entry.integer("id", 0, kMostId));
  std::ranges::sort(all.categories);
  if (all.categories.empty()) refuse_file(name, "names no categories");
  if (std::ranges::adjacent_find(all.categories) != all.categories.end())
    refuse_file(name, "names two categories by the same id");

  std::map<std::int64_t, std::size_t> places;
  for (const Entry& entry : list(document, name, "images", "image")) {
    constexpr auto kMostSide = static_cast<std::int64_t>(kMostPixels);
    if (!places.emplace(entry.integer("id", 0, kMostId), all.pictures.size()).second)
      entry.refuse("has the id of another");
    all.pictures.push_back({.file = file_name_of(entry),
                            .width = static_cast<std::size_t>(entry.integer("width", 1, kMostSide)),
                            .height = static_cast<std::size_t>(entry.integer("height", 1, kMostSide)),
                            .objects = {}});
  }
  if (all.pictures.empty()) refuse_file(name, "names no images");

  for (const Entry& entry : list(document, name, "annotations", "annotation")) {
    const auto place = places.find(entry.integer("image_id", 0, kMostId));
    if (place == places.end()) entry.refuse("is of an image that the file does not name");
    const std::int64_t id = entry.integer("category_id", 0, kMostId);
    const auto category = std::ranges::lower_bound(all.categories, id);
    if (category == all.categories.end() || *category != id)
      entry.refuse("is of a category that the file does not name");
    all.pictures[place->second].objects.push_back(
        {.box = box_of(entry),
         .label = static_cast<std::size_t>(category - all.categories.begin()),
         .is_crowd = entry.value.contains("iscrowd") && entry.integer("iscrowd", 0, 1) == 1});
  }
  return all;
}

}  // namespace flockstep::tasks
