#include "torch/checkpoint_folder.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/schema.h"
#include "runtime/gather.h"

namespace flockstep::torch_front {
namespace {

constexpr const char* kKind = "flockstep-torch";

std::uint64_t checksum_of(const std::string& bytes) { return base::hash_of(std::span<const char>(bytes)); }

[[noreturn]] void refuse_file(const std::string& sentence) { throw Error(ErrorCode::bad_file, sentence); }

}  // namespace

void CheckpointFolder::together(runtime::Context& context, const std::function<void()>& body) {
  std::string failure;
  try {
    body();
  } catch (const std::exception& exception) {
    failure = exception.what();
    failure.resize(std::min(failure.size(), failure.find('\n')));  // of torch's sentences: what follows are addresses
    if (failure.empty()) failure = "the checkpoint failed without a reason";
  }
  for (const std::string& sentence : runtime::gather_texts(context, failure))
    if (!sentence.empty()) refuse_file(sentence);
}

std::filesystem::path CheckpointFolder::file_of(const std::string& set, int rank) const {
  return folder_ / set / ("worker-" + std::to_string(rank) + ".pt");
}

bool CheckpointFolder::has_latest() const {
  std::error_code ignored;
  return std::filesystem::exists(folder_ / "latest", ignored);
}

std::vector<CheckpointFolder::Set> CheckpointFolder::listed() const {
  const std::string path = (folder_ / "latest").string();
  const auto json = nlohmann::json::parse(base::read_text(path), nullptr, false);
  base::require_known_schema(json, path);
  std::vector<Set> sets;
  try {
    if (json.at("kind") == kKind)
      for (const nlohmann::json& each : json.at("sets")) sets.push_back({each.at("name"), each.at("checksums")});
  } catch (const nlohmann::json::exception&) {
    sets.clear();
  }
  const auto is_one = [](const Set& set) { return (set.name == "a" || set.name == "b") && set.workers() > 0; };
  if (sets.empty() || !std::ranges::all_of(sets, is_one))
    refuse_file(path +
                " does not list sets of checkpoint files as this version writes them: restore it, or go on with the "
                "version that wrote it");
  return sets;
}

void CheckpointFolder::list(const std::vector<Set>& sets) const {
  nlohmann::json names = nlohmann::json::array();
  for (const Set& set : sets) names.push_back({{"name", set.name}, {"checksums", set.checksums}});
  const nlohmann::json json{{"schema", base::kSchema}, {"kind", kKind}, {"sets", names}};
  base::write_atomically(folder_ / "latest", json.dump() + "\n");
}

void CheckpointFolder::write(const std::function<std::string()>& make) {
  // Worker 0 looks, so that everybody writes to the same set even where somebody else sees the folder late.
  std::vector<Set> kept;
  double other = 0;
  if (context_.rank() == 0 && has_latest()) try {
      kept = {listed().front()};
      other = kept[0].name == "a" ? 1 : 0;
    } catch (const Error&) {  // what cannot be read is written anew
    }
  context_.all_reduce({&other, 1}, "checkpoint");
  Set set{other == 0 ? "a" : "b", {}};

  double checksum = 0;
  together(context_, [&] {
    const std::string mine = make();
    checksum = std::bit_cast<double>(checksum_of(mine));
    base::make_directory(folder_ / set.name);
    base::write_atomically(file_of(set.name, context_.rank()), mine);
  });
  for (const double each : runtime::gather_doubles(context_, {&checksum, 1}))
    set.checksums.push_back(std::bit_cast<std::uint64_t>(each));
  together(context_, [&] {
    if (context_.rank() != 0) return;
    for (int rank = 0; rank < context_.size(); ++rank) {
      std::error_code ignored;
      if (!std::filesystem::exists(file_of(set.name, rank), ignored))
        refuse_file(file_of(set.name, rank).string() +
                    " is missing on worker 0: the folder must be one that all workers share");
    }
    kept.insert(kept.begin(), set);
    list(kept);
  });
}

CheckpointFolder::Found CheckpointFolder::read(const Set& set, const std::vector<Set>& all) const {
  const auto rank = static_cast<std::size_t>(set.workers() == context_.size() ? context_.rank() : 0);
  const std::string path = file_of(set.name, static_cast<int>(rank)).string();
  Found found{base::read_text(path), path, set.workers(), {}};
  const std::uint64_t checksum = checksum_of(found.bytes);
  if (checksum == set.checksums[rank]) return found;
  for (const Set& each : all)
    if (const auto owner = std::ranges::find(each.checksums, checksum); owner != each.checksums.end())
      refuse_file(path + " is the file of worker " + std::to_string(owner - each.checksums.begin()) + " of " +
                  std::to_string(each.workers()) + " in set " + each.name + ", not of worker " + std::to_string(rank) +
                  " in set " + set.name);
  refuse_file(path + " is not the file that was saved (its checksum is wrong): it is damaged, or of another training");
}

CheckpointFolder::Found CheckpointFolder::read() const {
  std::vector<Set> sets;
  together(context_, [&] {
    if (!has_latest()) refuse_file("there is no checkpoint in " + folder_.string() + ": it has no file named latest");
    sets = listed();
  });
  std::string bad;  // what was wrong with the newest
  for (const Set& set : sets) {
    Found found;
    std::string failure;
    try {
      together(context_, [&] { found = read(set, sets); });
    } catch (const Error& error) {
      failure = error.what();
    }
    if (failure.empty()) {
      if (bad.empty()) return found;
      found.warning = "this is the checkpoint before the last one, because " + bad;
      // The next one must not be written over the only one that is whole.
      together(context_, [&] {
        if (context_.rank() == 0) list({set});
      });
      return found;
    }
    if (bad.empty()) bad = failure;
  }
  refuse_file("no checkpoint in " + folder_.string() + " is whole: " + bad);
}

}  // namespace flockstep::torch_front
