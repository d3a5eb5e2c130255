#include "torch/checkpoint_folder.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/files.h"
#include "base/hash.h"
#include "base/split.h"
#include "runtime/gather.h"

namespace flockstep::torch_front {
namespace {

constexpr const char* kKind = "flockstep-torch-1";

std::uint64_t checksum_of(const std::string& bytes) { return base::hash_of(std::span<const char>(bytes)); }

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::bad_file, sentence); }

template <typename Number>
std::optional<Number> number_in(const std::string& word) {
  Number number{};
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), number);
  return failed == std::errc() && end == word.data() + word.size() ? std::optional(number) : std::nullopt;
}

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
    if (!sentence.empty()) refuse(sentence);
}

std::filesystem::path CheckpointFolder::file_of(const std::string& set, int rank) const {
  return folder_ / set / ("worker-" + std::to_string(rank) + ".pt");
}

bool CheckpointFolder::has_latest() const {
  std::error_code ignored;
  return std::filesystem::exists(folder_ / "latest", ignored);
}

CheckpointFolder::Latest CheckpointFolder::read_latest() const {
  const std::filesystem::path path = folder_ / "latest";
  std::string text = base::read_text(path);
  if (text.ends_with('\n')) text.pop_back();
  std::vector<std::string> words = base::split(text, ' ');
  words.resize(std::max<std::size_t>(words.size(), 3));
  Latest latest;
  latest.set = words[1];
  latest.workers = number_in<int>(words[2]).value_or(0);
  for (std::size_t i = 3; i < words.size(); ++i)
    if (const auto checksum = number_in<std::uint64_t>(words[i])) latest.checksums.push_back(*checksum);
  if (words[0] != kKind || (latest.set != "a" && latest.set != "b") || latest.workers < 1 ||
      std::ssize(latest.checksums) != latest.workers)
    refuse(path.string() + " does not name a whole set of checkpoint files: delete it or restore it");
  return latest;
}

void CheckpointFolder::write(const std::function<std::string()>& make) {
  // Worker 0 looks, so that everybody writes to the same set even where somebody else sees the folder late.
  double other = 0;
  if (context_.rank() == 0 && has_latest()) try {
      other = read_latest().set == "a" ? 1 : 0;
    } catch (const Error&) {  // what cannot be read is written anew
    }
  context_.all_reduce({&other, 1}, "checkpoint");
  const std::string set = other == 0 ? "a" : "b";

  double checksum = 0;
  together(context_, [&] {
    const std::string mine = make();
    checksum = std::bit_cast<double>(checksum_of(mine));
    base::make_directory(folder_ / set);
    base::write_atomically(file_of(set, context_.rank()), mine);
  });
  const std::vector<double> checksums = runtime::gather_doubles(context_, {&checksum, 1});
  together(context_, [&] {
    if (context_.rank() != 0) return;
    std::string text = std::string(kKind) + " " + set + " " + std::to_string(context_.size());
    for (int rank = 0; rank < context_.size(); ++rank) {
      std::error_code ignored;
      if (!std::filesystem::exists(file_of(set, rank), ignored))
        refuse(file_of(set, rank).string() + " is missing on worker 0: the folder must be one that all workers share");
      text += " " + std::to_string(std::bit_cast<std::uint64_t>(checksums[static_cast<std::size_t>(rank)]));
    }
    base::write_atomically(folder_ / "latest", text + "\n");
  });
  std::error_code ignored;  // an old set that stays costs space, nothing else
  if (context_.rank() == 0) std::filesystem::remove_all(folder_ / (set == "a" ? "b" : "a"), ignored);
}

CheckpointFolder::Found CheckpointFolder::read() const {
  if (!has_latest()) refuse("there is no checkpoint in " + folder_.string() + ": it has no file named latest");
  const Latest latest = read_latest();
  const int rank = latest.workers == context_.size() ? context_.rank() : 0;
  const std::string path = file_of(latest.set, rank).string();
  Found found{base::read_text(path), path, latest.workers};
  if (checksum_of(found.bytes) != latest.checksums[static_cast<std::size_t>(rank)])
    refuse(path + " is not the whole file that was saved (its checksum is wrong): delete the checkpoint or restore it");
  return found;
}

}  // namespace flockstep::torch_front
