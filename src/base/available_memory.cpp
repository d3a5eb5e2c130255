#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace flockstep::base {
namespace {

using std::filesystem::path;
using Amount = std::optional<std::uint64_t>;

// The number behind a word at the beginning of a line, or, without a word, the number that the file begins with.
Amount number_in(const path& file, const std::string& name = "") {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  if (name.empty()) return stream >> number ? Amount(number) : std::nullopt;
  for (std::string word; stream >> word;) {
    if (word == name) return stream >> number ? Amount(number) : std::nullopt;
    std::getline(stream, word);
  }
  return std::nullopt;
}

// A control group may use up to its limit, and gets back what it holds of files that nobody has used for a while.
Amount left_in_group(Amount limit, Amount used, Amount cached) {
  if (!limit || !used) return std::nullopt;
  const std::uint64_t kept = *used - std::min(*used, cached.value_or(0));
  return *limit - std::min(*limit, kept);
}

}  // namespace

std::optional<std::uint64_t> available_memory(const path& root) {
  Amount machine = number_in(root / "proc/meminfo", "MemAvailable:");  // in KiB
  if (machine) *machine *= 1024;
  const path groups = root / "sys/fs/cgroup", old = groups / "memory";
  Amount least;
  for (const Amount& each :
       {machine,
        left_in_group(number_in(groups / "memory.max"), number_in(groups / "memory.current"),
                      number_in(groups / "memory.stat", "inactive_file")),
        left_in_group(number_in(old / "memory.limit_in_bytes"), number_in(old / "memory.usage_in_bytes"),
                      number_in(old / "memory.stat", "total_inactive_file"))})
    if (each && (!least || *each < *least)) least = each;
  return least;
}

// Linux limits the mappings of a process. A stack takes two: itself and the page that guards it.
std::optional<std::uint64_t> most_stacks(const path& root) {
  constexpr std::uint64_t kMappingsOfTheRest = 4096;  // libraries, torch's above all, and large buffers
  const Amount mappings = number_in(root / "proc/sys/vm/max_map_count");
  if (!mappings) return std::nullopt;
  return (*mappings - std::min(*mappings, kMappingsOfTheRest)) / 2;
}

}  // namespace flockstep::base
