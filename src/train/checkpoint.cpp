#include "train/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/settings.h"

namespace flockstep::train {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& folder, std::int64_t step) {
  return folder / fmt::format("step-{}", step);
}

}  // namespace

bool Checkpoints::exist_in(const std::filesystem::path& out) {
  return std::filesystem::exists(out / "checkpoint" / "latest");
}

std::filesystem::path Checkpoints::file_of(std::int64_t step, int rank) const {
  return folder_of(folder_, step) / fmt::format("worker-{}.bin", rank);
}

void Checkpoints::check_complete(std::int64_t step) const {
  for (int rank = 0; rank < context_.size(); ++rank)
    if (!std::filesystem::exists(file_of(step, rank)))
      throw Error(ErrorCode::bad_file,
                  fmt::format("{} is missing on worker 0: --out must be a folder that all workers share",
                              file_of(step, rank).string()));
}

void Checkpoints::write(std::int64_t step, const base::Archive& archive) {
  base::make_directory(folder_of(folder_, step));
  archive.write(file_of(step, context_.rank()));
  context_.wait(context_.engine().barrier(), "checkpoint");
  if (context_.rank() == 0) {
    check_complete(step);
    base::write_atomically(folder_ / "latest", fmt::format("{} {}\n", step, context_.size()));
    std::error_code ignored;  // an old set that stays costs space, nothing else
    std::vector<std::filesystem::path> old;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
      if (entry.is_directory(ignored) && entry.path() != folder_of(folder_, step)) old.push_back(entry.path());
    for (const auto& path : old) std::filesystem::remove_all(path, ignored);
  }
  context_.wait(context_.engine().barrier(), "checkpoint");
}

std::optional<Checkpoints::Found> Checkpoints::read_latest() {
  if (!exist_in(folder_.parent_path())) return std::nullopt;
  const std::filesystem::path latest = folder_ / "latest";
  std::string text = base::read_text(latest);
  if (text.ends_with('\n')) text.pop_back();
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::int64_t step = base::parse_integer(latest.string(), std::string_view(text).substr(0, space), 0,
                                                std::numeric_limits<std::int64_t>::max());
  const auto workers = static_cast<int>(base::parse_integer(
      latest.string(), std::string_view(text).substr(std::min(space + 1, text.size())), 1, 1 << 20));
  return Found{base::Archive::read(file_of(step, workers == context_.size() ? context_.rank() : 0)), workers};
}

}  // namespace flockstep::train
