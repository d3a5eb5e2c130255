// explorer: runs the protocol, and real agents, under many schedules, each drawn from a seed, and checks every one.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "simulation/explore.h"

namespace flockstep::simulation {
namespace {

constexpr std::string_view kUsage =
    "explorer [--seeds FROM..TO | --seed N] [--jobs J] [--only KIND] [--verbose]\n"
    "  --seeds    all seeds from FROM to TO, both included (0..9999)\n"
    "  --seed     one of them; with --verbose all that happens\n"
    "  --jobs     so many at a time (1)\n"
    "  --only     one kind of run: members, agents or elastic\n";

struct Arguments {
  std::uint64_t from = 0, to = 9999;
  int jobs = 1;
  Exploration how;
};

template <typename T>
bool is_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse(std::string_view name, std::string_view value, Arguments& arguments) {
  if (name == "--seeds") {
    const auto dots = value.find("..");
    return dots != value.npos && is_number(value.substr(0, dots), arguments.from) &&
           is_number(value.substr(dots + 2), arguments.to) && arguments.from <= arguments.to;
  }
  if (name == "--seed") return is_number(value, arguments.from) && is_number(value, arguments.to);
  if (name == "--jobs") return is_number(value, arguments.jobs) && arguments.jobs > 0;
  const auto kind = std::ranges::find(kKinds, value);
  if (name != "--only" || kind == kKinds.end()) return false;
  arguments.how.kind = static_cast<Kind>(kind - kKinds.begin());
  return true;
}

bool parse(int count, char** values, Arguments& arguments) {
  for (int i = 1; i < count; ++i)
    if (std::string_view(values[i]) == "--verbose")
      arguments.how.history = stdout;
    else if (i + 1 == count || !parse(values[i], values[i + 1], arguments))
      return false;
    else
      ++i;
  return !arguments.how.history || arguments.from == arguments.to;
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
    work(!arguments_.how.history && isatty(STDERR_FILENO));
    threads.clear();
    return summary_;
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

 private:
  using Clock = std::chrono::steady_clock;

  void work(bool shows_progress) {
    Summary mine;
    double shown = 0;
    while (!failed_) {
      const std::uint64_t seed = next_++;
      if (seed > arguments_.to || seed < arguments_.from) break;
      if (shows_progress && seconds() > shown + 0.2) {
        shown = seconds();
        fmt::print(stderr, "\rseed {} of {}..{}", seed, arguments_.from, arguments_.to);
      }
      run_seed(seed, arguments_.how, mine);
      if (mine.failure) failed_ = true;
    }
    if (shows_progress) fmt::print(stderr, "\r\033[K");
    const std::scoped_lock lock(mutex_);
    summary_.add(mine);
  }

  const Arguments& arguments_;
  const Clock::time_point begun_ = Clock::now();
  std::atomic<std::uint64_t> next_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  Summary summary_;
};

int run(int count, char** values) {
  Arguments arguments;
  if (!parse(count, values, arguments)) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  std::signal(SIGABRT, explain_abort);
  Run run(arguments);
  const Summary summary = run();
  fmt::print("{}  {:.1f} s, {:.0f} runs a second\n", summary.text(), run.seconds(),
             static_cast<double>(summary.runs) / run.seconds());
  if (summary.failure) fmt::print(stderr, "{}\n", summary.failure->report());
  return summary.failure ? 1 : 0;
}

}  // namespace
}  // namespace flockstep::simulation

int main(int count, char** values) { return flockstep::simulation::run(count, values); }
