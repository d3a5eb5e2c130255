#include "tasks/translation/parallel_text.h"

#include <fmt/core.h>

#include "tasks/data_file.h"
#include "tasks/translation/utf8.h"

namespace flockstep::tasks {
namespace {

using std::filesystem::path;

constexpr std::size_t kKeepAsideEvery = 50;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

path file_of(const TextFiles& files, const std::string& part, const std::string& ending) {
  return path(files.folder) / fmt::format("{}.{}", part, ending);
}

bool has_validation(const TextFiles& files) {
  std::error_code code;
  return std::filesystem::exists(file_of(files, "valid", files.source), code) ||
         std::filesystem::exists(file_of(files, "valid", files.target), code);
}

std::vector<std::string> read_lines(const path& file) {
  const std::vector<std::byte> bytes = read_data_file(file);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    lines.emplace_back(line);
    if (line.find('\0') != std::string_view::npos)
      refuse_file(file.string(), fmt::format("holds a zero byte in line {}: it is no text", lines.size()));
    if (!is_utf8(line)) refuse_file(file.string(), fmt::format("is not UTF-8 in line {}", lines.size()));
  }
  return lines;
}

std::vector<SentencePair> read_pairs(const TextFiles& files, const std::string& part) {
  const path source = file_of(files, part, files.source), target = file_of(files, part, files.target);
  std::vector<std::string> sources = read_lines(source), targets = read_lines(target);
  if (sources.size() != targets.size())
    refuse_file(target.string(), fmt::format("holds {} lines for the {} of {}: every sentence needs its translation",
                                             targets.size(), sources.size(), source.string()));
  std::vector<SentencePair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (!words_of(sources[i]).empty() && !words_of(targets[i]).empty())
      pairs.push_back({std::move(sources[i]), std::move(targets[i])});
  if (pairs.empty()) refuse_file(source.string(), fmt::format("and {} hold no pair of sentences", target.string()));
  return pairs;
}

void keep_aside(ParallelText& text) {
  std::vector<SentencePair> rest;
  for (std::size_t i = 0; i < text.train.size(); ++i)
    (i % kKeepAsideEvery == kKeepAsideEvery - 1 ? text.validation : rest).push_back(std::move(text.train[i]));
  text.train = std::move(rest);
}

}  // namespace

std::vector<path> files_of(const TextFiles& files) {
  std::vector<std::string> parts{"train", "test"};
  if (has_validation(files)) parts.insert(parts.begin() + 1, "valid");
  std::vector<path> all;
  for (const std::string& part : parts) {
    all.push_back(file_of(files, part, files.source));
    all.push_back(file_of(files, part, files.target));
  }
  return all;
}

ParallelText read_parallel_text(const TextFiles& files) {
  ParallelText text;
  text.train = read_pairs(files, "train");
  text.test = read_pairs(files, "test");
  if (has_validation(files))
    text.validation = read_pairs(files, "valid");
  else
    keep_aside(text);
  return text;
}

}  // namespace flockstep::tasks
