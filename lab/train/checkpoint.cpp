#include "train/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/schema.h"
#include "runtime/at_root.h"
#include "runtime/gather.h"

namespace flockstep::train {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& folder, std::int64_t step) {
  return folder / fmt::format("step-{}", step);
}

// What an archive ends with.
std::uint64_t checksum_of(std::span<const std::byte> file) {
  std::uint64_t checksum;
  std::memcpy(&checksum, file.last(sizeof checksum).data(), sizeof checksum);
  return checksum;
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

void Checkpoints::list(const std::vector<Generation>& generations) const {
  nlohmann::json list = nlohmann::json::array();
  for (const Generation& each : generations)
    list.push_back({{"step", each.step}, {"workers", each.workers()}, {"checksums", each.checksums}});
  base::write_atomically(folder_ / "latest",
                         nlohmann::json{{"schema", base::kSchema}, {"generations", list}}.dump() + "\n");
}

void Checkpoints::remove_others(const std::vector<Generation>& generations) const {
  std::error_code ignored;  // what stays costs space, nothing else
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    const auto is_kept = [&](const Generation& each) { return entry.path() == folder_of(folder_, each.step); };
    if (entry.is_directory(ignored) && std::ranges::none_of(generations, is_kept)) old.push_back(entry.path());
  }
  for (const auto& path : old) base::remove_folder(path);
}

void Checkpoints::write(std::int64_t step, base::Archive archive) {
  if (newest_ && newest_->step == step) return;  // it is there, and nothing may be written over it
  archive.put_value("rank", context_.rank());
  archive.put_value("workers", context_.size());
  const std::vector<std::byte> file = archive.to_bytes();
  base::make_directory(folder_of(folder_, step));
  base::write_atomically(file_of(step, context_.rank()), std::span<const std::byte>(file));
  const auto mine = std::bit_cast<double>(checksum_of(file));
  Generation generation{step, {}};
  for (const double each : runtime::gather_doubles(context_, {&mine, 1}))
    generation.checksums.push_back(std::bit_cast<std::uint64_t>(each));
  std::vector<Generation> kept{generation};
  if (newest_) kept.push_back(*newest_);
  if (context_.rank() == 0) {
    check_complete(step);
    list(kept);
    remove_others(kept);
  }
  newest_ = std::move(generation);
  context_.wait(context_.engine().barrier(), "checkpoint");
}

// Rank 0 looks: somebody else may see the folder late.
std::vector<Checkpoints::Generation> Checkpoints::listed() {
  const std::string path = (folder_ / "latest").string();
  constexpr std::string_view kThere = "there: ";
  const std::string text = runtime::at_root(context_, [&] {
    return exist_in(folder_.parent_path()) ? std::string(kThere) + base::read_text(path) : std::string();
  });
  if (text.empty()) return {};
  const auto json = nlohmann::json::parse(text.substr(kThere.size()), nullptr, false);
  base::require_known_schema(json, path);
  std::vector<Generation> generations;
  try {
    for (const nlohmann::json& each : json.at("generations"))
      generations.push_back({each.at("step"), each.at("checksums")});
  } catch (const nlohmann::json::exception&) {
    generations.clear();
  }
  if (generations.empty() ||
      std::ranges::any_of(generations, [](const Generation& each) { return each.step < 0 || each.checksums.empty(); }))
    throw Error(ErrorCode::bad_file,
                fmt::format("{} does not list checkpoints as this version writes them: restore it, go on with the "
                            "version that wrote it, or start again in another --out",
                            path));
  return generations;
}

base::Archive Checkpoints::read(const Generation& generation) const {
  const int workers = generation.workers(), rank = workers == context_.size() ? context_.rank() : 0;
  const std::string path = file_of(generation.step, rank).string();
  const std::vector<std::byte> file = base::read_bytes(path);
  base::Archive archive = base::Archive::from_bytes(file, path);
  const auto its_rank = archive.get_value<int>("rank"), its_workers = archive.get_value<int>("workers");
  const auto its_step = archive.get_value<std::int64_t>("step");
  if (its_rank != rank || its_workers != workers || its_step != generation.step)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} is the file of worker {} of {} after step {}, not of worker {} of {} after step {}",
                            path, its_rank, its_workers, its_step, rank, workers, generation.step));
  if (checksum_of(file) != generation.checksums[static_cast<std::size_t>(rank)])
    throw Error(ErrorCode::bad_file, fmt::format("{} is a file of another run: it is not the one that was written "
                                                 "with this checkpoint",
                                                 path));
  return archive;
}

std::optional<Checkpoints::Found> Checkpoints::read_latest() {
  std::string bad;  // what was wrong with the newest
  for (const Generation& generation : listed()) {
    Found found{{}, generation.workers(), {}};
    std::string failure;
    try {
      found.archive = read(generation);
    } catch (const Error& error) {
      failure = error.what();
    }
    const auto failures = runtime::gather_texts(context_, failure);
    const auto first = std::ranges::find_if(failures, [](const std::string& each) { return !each.empty(); });
    if (first == failures.end()) {
      if (!bad.empty())
        found.warning = fmt::format("going back to the checkpoint after step {}: {}", generation.step, bad);
      newest_ = generation;
      return found;
    }
    if (bad.empty()) bad = *first;
  }
  if (bad.empty()) return std::nullopt;
  throw Error(ErrorCode::bad_file, "no checkpoint of this run is whole: " + bad);
}

}  // namespace flockstep::train
