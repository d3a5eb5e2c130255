#include "train/checkpoint.h"

#include <fmt/core.h>

#include <limits>

#include "base/settings.h"

namespace flockstep::train {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& folder, std::int64_t step) {
  return folder / fmt::format("step-{}", step);
}

}  // namespace

std::filesystem::path Checkpoints::file_of(std::int64_t step) const {
  return folder_of(folder_, step) / fmt::format("worker-{}.bin", context_.rank());
}

void Checkpoints::write(std::int64_t step, const base::Archive& archive) {
  base::make_directory(folder_of(folder_, step));
  archive.write(file_of(step));
  context_.wait(context_.engine().barrier(), "checkpoint");
  if (context_.rank() == 0) {
    base::write_atomically(folder_ / "latest", fmt::format("{}\n", step));
    std::error_code ignored;  // an old set that stays costs space, nothing else
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
      if (entry.is_directory() && entry.path() != folder_of(folder_, step))
        std::filesystem::remove_all(entry.path(), ignored);
  }
  context_.wait(context_.engine().barrier(), "checkpoint");
}

std::optional<base::Archive> Checkpoints::read_latest() {
  if (!std::filesystem::exists(folder_ / "latest")) return std::nullopt;
  std::string text = base::read_text(folder_ / "latest");
  if (text.ends_with('\n')) text.pop_back();
  const std::int64_t step =
      base::parse_integer((folder_ / "latest").string(), text, 0, std::numeric_limits<std::int64_t>::max());
  return base::Archive::read(file_of(step));
}

}  // namespace flockstep::train
