#include "session/checkpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/schema.h"
#include "runtime/at_root.h"
#include "runtime/gather.h"

namespace flockstep::session {
namespace {

[[noreturn]] void refuse_file(const std::string& sentence) { throw Error(ErrorCode::bad_file, sentence); }

// Collective: why `body` failed on the first worker where it did; empty if it did nowhere.
std::string first_failure(runtime::Context& context, const std::function<void()>& body) {
  std::string mine;
  try {
    body();
  } catch (const std::exception& exception) {
    mine = exception.what();
    mine.resize(std::min(mine.size(), mine.find('\n')));  // of torch's sentences: what follows are addresses
    if (mine.empty()) mine = "the checkpoint failed without a reason";
  }
  const std::vector<std::string> all = runtime::gather_texts(context, mine);
  const auto first = std::ranges::find_if(all, [](const std::string& each) { return !each.empty(); });
  return first == all.end() ? "" : *first;
}

}  // namespace

void together(runtime::Context& context, const std::function<void()>& body) {
  if (const std::string failure = first_failure(context, body); !failure.empty()) refuse_file(failure);
}

bool Checkpoints::exist_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "latest", ignored);
}

std::filesystem::path Checkpoints::file_of(const Generation& generation, int rank) const {
  return folder_ / generation.name / fmt::format("worker-{}{}", rank, suffix_);
}

std::string Checkpoints::text_of(const std::vector<Generation>& generations) {
  nlohmann::json list = nlohmann::json::array();
  for (const Generation& each : generations)
    list.push_back({{"name", each.name}, {"step", each.step}, {"checksums", each.checksums}});
  return nlohmann::json{{"schema", base::kSchema}, {"generations", list}}.dump() + "\n";
}

std::vector<Checkpoints::Generation> Checkpoints::parsed(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  std::vector<Generation> generations;
  try {
    for (const nlohmann::json& each : json.at("generations"))
      generations.push_back({each.at("name"), each.at("step"), each.at("checksums")});
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  const auto is_one = [](const Generation& each) {
    return (each.name == "a" || each.name == "b") && each.step >= 0 && each.workers() > 0;
  };
  return std::ranges::all_of(generations, is_one) ? generations : std::vector<Generation>();
}

std::vector<Checkpoints::Generation> Checkpoints::listed() const {
  if (!exist_in(folder_)) return {};
  const std::string text = base::read_text(list()), path = list().string();
  base::require_known_schema(nlohmann::json::parse(text, nullptr, false), path);
  const std::vector<Generation> generations = parsed(text);
  if (generations.empty())
    refuse_file(path +
                " does not list checkpoints as this version writes them: restore it, go on with the version that "
                "wrote it, or start again in another folder");
  return generations;
}

void Checkpoints::write(std::int64_t step, const std::function<std::vector<std::byte>()>& make) {
  std::vector<Generation> kept;  // on rank 0, which looks: others may see the folder late
  Generation generation;
  generation.step = step;
  generation.name = runtime::at_root(context_, [&] {
    try {
      kept = listed();
    } catch (const Error&) {  // a list that cannot be read is written anew
    }
    kept.resize(std::min<std::size_t>(kept.size(), 1));
    return kept.empty() || kept[0].name == "b" ? "a" : "b";
  });
  double checksum = 0;
  together(context_, [&] {
    const std::vector<std::byte> mine = make();
    checksum = std::bit_cast<double>(base::hash_of(std::span(mine)));
    base::make_directory(folder_ / generation.name);
    base::write_atomically(file_of(generation, context_.rank()), std::span(mine));
  });
  for (const double each : runtime::gather_doubles(context_, {&checksum, 1}))
    generation.checksums.push_back(std::bit_cast<std::uint64_t>(each));
  together(context_, [&] {
    if (context_.rank() != 0) return;
    for (int rank = 0; rank < context_.size(); ++rank)
      if (const auto file = file_of(generation, rank); !std::filesystem::exists(file))
        refuse_file(file.string() + " is missing on worker 0: the folder must be one that all workers share");
    kept.insert(kept.begin(), generation);
    base::write_atomically(list(), text_of(kept));
  });
}

Checkpoints::Found Checkpoints::read(const Generation& generation, const std::vector<Generation>& all) const {
  const int rank = generation.workers() == context_.size() ? context_.rank() : 0;
  const std::string path = file_of(generation, rank).string();
  Found found{base::read_bytes(path), path, generation.workers(), {}};
  const std::uint64_t checksum = base::hash_of(std::span(found.bytes));
  if (checksum == generation.checksums[static_cast<std::size_t>(rank)]) return found;
  for (const Generation& each : all)
    if (const auto owner = std::ranges::find(each.checksums, checksum); owner != each.checksums.end())
      refuse_file(fmt::format("{} is the file of worker {} of {} after step {}, not of worker {} of {} after step {}",
                              path, owner - each.checksums.begin(), each.workers(), each.step, rank,
                              generation.workers(), generation.step));
  refuse_file(path + " is not the file that was saved (its checksum is wrong): it is damaged, or of another training");
}

std::optional<Checkpoints::Found> Checkpoints::read() const {
  const auto generations = parsed(runtime::at_root(context_, [&] { return text_of(listed()); }));
  std::string bad;  // what was wrong with the newest
  for (const Generation& generation : generations) {
    Found found;
    const std::string failure = first_failure(context_, [&] { found = read(generation, generations); });
    if (failure.empty() && bad.empty()) return found;
    if (failure.empty()) {
      found.warning = fmt::format("going back to the checkpoint after step {}: {}", generation.step, bad);
      // The next one must not be written over the only one that is complete.
      together(context_, [&] {
        if (context_.rank() == 0) base::write_atomically(list(), text_of({generation}));
      });
      return found;
    }
    if (bad.empty()) bad = failure;
  }
  if (bad.empty()) return std::nullopt;
  refuse_file(fmt::format("no checkpoint in {} is whole: {}", folder_.string(), bad));
}

}  // namespace flockstep::session
