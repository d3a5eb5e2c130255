// explorer: runs the protocol, and real agents, under many schedules, each drawn from a seed, and checks every one.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "simulation/explore.h"

namespace flockstep::simulation {
namespace {

constexpr std::string_view kUsage =
    "explorer [--seeds FROM..TO | --seed N] [--seconds S] [--jobs J] [--only KIND] [--verbose]\n"
    "  --seeds    all seeds from FROM to TO, both included (0..9999)\n"
    "  --seed     one of them; with --verbose all that happens\n"
    "  --seconds  begin no seed after so long\n"
    "  --jobs     so many at a time (1)\n"
    "  --only     one kind of run: members, agents or elastic\n";

struct Arguments {
  std::uint64_t from = 0, to = 9999;
  double seconds = 0;
  int jobs = 1;
  bool verbose = false, help = false;
  std::string_view only;
};

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// What is wrong, or nothing.
std::string parse(int count, char** values, Arguments& arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--verbose" || name == "--help") {
      (name == "--help" ? arguments.help : arguments.verbose) = true;
      continue;
    }
    if (name != "--seeds" && name != "--seed" && name != "--seconds" && name != "--jobs" && name != "--only")
      return fmt::format(
          "explorer does not take '{}'; it takes --seeds, --seed, --seconds, --jobs, --only and --verbose", name);
    if (++i == count) return fmt::format("{} needs a value", name);
    const std::string_view value = values[i];
    if (name == "--seeds") {
      const auto dots = value.find("..");
      const auto from = number<std::uint64_t>(value.substr(0, dots));
      const auto to = dots == value.npos ? std::nullopt : number<std::uint64_t>(value.substr(dots + 2));
      if (!from || !to || *to < *from) return fmt::format("--seeds takes two numbers such as 0..9999, not '{}'", value);
      arguments.from = *from;
      arguments.to = *to;
    } else if (name == "--seed") {
      const auto seed = number<std::uint64_t>(value);
      if (!seed) return fmt::format("--seed takes a whole number, not '{}'", value);
      arguments.from = arguments.to = *seed;
    } else if (name == "--seconds") {
      const auto seconds = number<double>(value);
      if (!seconds || !(*seconds > 0)) return fmt::format("--seconds takes a number above 0, not '{}'", value);
      arguments.seconds = *seconds;
    } else if (name == "--only") {
      if (value != "members" && value != "agents" && value != "elastic")
        return fmt::format("--only takes members, agents or elastic, not '{}'", value);
      arguments.only = value;
    } else {
      const auto jobs = number<int>(value);
      if (!jobs || *jobs < 1 || *jobs > 1024)
        return fmt::format("--jobs takes a whole number from 1 to 1024, not '{}'", value);
      arguments.jobs = *jobs;
    }
  }
  if (arguments.verbose && arguments.from != arguments.to)
    return "--verbose tells the history of one run: add --seed N";
  return "";
}

// An assertion of a member ends the process; the seed must be known all the same.
void explain_abort(int) {
  char line[128];
  const auto end = fmt::format_to_n(
      line, sizeof line, "the process ends in seed {}\nreplay: build/release/bin/explorer --seed {} --verbose\n",
      seed_under_way(), seed_under_way());
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, std::min(end.size, sizeof line));
}

// Workers take the seeds in turn, so all seeds below a failing one are run, and the lowest failure is always the same.
class Run {
 public:
  explicit Run(const Arguments& arguments) : arguments_(arguments), next_(arguments.from) {}

  Summary operator()() {
    std::vector<std::jthread> threads;
    for (int i = 1; i < arguments_.jobs; ++i) threads.emplace_back([this] { work(false); });
    work(true);
    threads.clear();
    return summary_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void work(bool shows_progress) {
    Summary mine;
    Exploration how;
    if (arguments_.verbose) how.history = stdout;
    if (!arguments_.only.empty()) {
      how.runs_members = arguments_.only == "members";
      how.runs_agents = arguments_.only == "agents";
      how.runs_elastic = arguments_.only == "elastic";
    }
    const bool is_terminal = shows_progress && isatty(STDERR_FILENO) && !arguments_.verbose;
    auto shown = begun_;
    while (!failed_) {
      const std::uint64_t seed = next_++;
      if (seed > arguments_.to || seed < arguments_.from) break;
      const auto now = Clock::now();
      if (arguments_.seconds > 0 && now - begun_ > std::chrono::duration<double>(arguments_.seconds)) break;
      if (is_terminal && now - shown > std::chrono::milliseconds(200)) {
        shown = now;
        fmt::print(stderr, "\rseed {} of {}..{}", seed, arguments_.from, arguments_.to);
      }
      run_seed(seed, how, mine);
      if (mine.failure) failed_ = true;
    }
    if (is_terminal) fmt::print(stderr, "\r\033[K");
    const std::scoped_lock lock(mutex_);
    summary_.add(mine);
  }

  const Arguments arguments_;
  const Clock::time_point begun_ = Clock::now();
  std::atomic<std::uint64_t> next_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  Summary summary_;
};

int run(int count, char** values) {
  Arguments arguments;
  const std::string wrong = parse(count, values, arguments);
  if (!wrong.empty()) {
    fmt::print(stderr, "explorer: {}\n", wrong);
    return 2;
  }
  if (arguments.help) {
    fmt::print("{}", kUsage);
    return 0;
  }
  std::signal(SIGABRT, explain_abort);
  const auto begun = std::chrono::steady_clock::now();
  const Summary summary = Run(arguments)();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  fmt::print("{}  {:.1f} s, {:.0f} runs a second\n", to_text(summary), seconds.count(),
             static_cast<double>(summary.runs) / seconds.count());
  if (summary.failure) fmt::print(stderr, "{}\n", summary.failure->report());
  return summary.failure ? 1 : 0;
}

}  // namespace
}  // namespace flockstep::simulation

int main(int count, char** values) { return flockstep::simulation::run(count, values); }
