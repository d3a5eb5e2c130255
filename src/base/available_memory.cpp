#include "base/available_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/files.h"
#include "base/split.h"
#include "flockstep/error.h"

namespace flockstep::base {
namespace {

using std::filesystem::path;
using Amount = std::optional<std::uint64_t>;

// The number behind a word at the beginning of a line, or, without a word, the number that the file begins with.
Amount amount_in(const path& file, const std::string& name = "") {
  std::string text;
  try {
    text = read_text(file);
  } catch (const Error&) {  // not there: not known
    return std::nullopt;
  }
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(name + (name.empty() ? "" : " "))) continue;
    const std::size_t begin = std::min(line.find_first_not_of(' ', name.size()), line.size());
    std::uint64_t number = 0;
    const bool is_number = std::from_chars(line.data() + begin, line.data() + line.size(), number).ec == std::errc();
    return is_number ? Amount(number) : std::nullopt;
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
  Amount machine = amount_in(root / "proc/meminfo", "MemAvailable:");  // in KiB
  if (machine) *machine *= 1024;
  const path groups = root / "sys/fs/cgroup", old = groups / "memory";
  Amount least;
  for (const Amount& each :
       {machine,
        left_in_group(amount_in(groups / "memory.max"), amount_in(groups / "memory.current"),
                      amount_in(groups / "memory.stat", "inactive_file")),
        left_in_group(amount_in(old / "memory.limit_in_bytes"), amount_in(old / "memory.usage_in_bytes"),
                      amount_in(old / "memory.stat", "total_inactive_file"))})
    if (each && (!least || *each < *least)) least = each;
  return least;
}

// Linux limits the mappings of a process. A stack takes two: itself and the page that guards it.
std::optional<std::uint64_t> most_stacks(const path& root) {
  constexpr std::uint64_t kMappingsOfTheRest = 4096;  // libraries, torch's above all, and large buffers
  const Amount mappings = amount_in(root / "proc/sys/vm/max_map_count");
  if (!mappings) return std::nullopt;
  return (*mappings - std::min(*mappings, kMappingsOfTheRest)) / 2;
}

std::optional<std::uint64_t> address_space_left() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::uint64_t pages = amount_in("/proc/self/statm").value_or(0);
  const std::uint64_t taken = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, taken);
}

}  // namespace flockstep::base
