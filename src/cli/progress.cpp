#include "cli/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <utility>

#include "cli/signals.h"

namespace flockstep::cli {

Progress::Progress() : visible_(::isatty(STDERR_FILENO) == 1) {}

void Progress::begin(const std::string& label, const std::string& unit) {
  label_ = label;
  unit_ = unit;
  begin_ = Clock::now();
  last_ = {};
}

void Progress::show(std::int64_t done, std::int64_t total) {
  if (done == total || Clock::now() - last_ >= std::chrono::milliseconds(100)) show_at_once(done, total);
}

void Progress::show_at_once(std::int64_t done, std::int64_t total) {
  if (!visible_) return;
  last_ = Clock::now();
  constexpr std::int64_t kCells = 30;
  const auto filled = static_cast<std::size_t>(total > 0 ? kCells * done / total : kCells);
  const double elapsed = std::chrono::duration<double>(last_ - begin_).count();
  const std::string left =
      done > 0 ? fmt::format(", {:.0f} s left", elapsed * static_cast<double>(total - done) / static_cast<double>(done))
               : "";
  fmt::print(stderr, "\r\033[K{} [{}{}] {}/{} {}{}", label_, std::string(filled, '#'),
             std::string(static_cast<std::size_t>(kCells) - filled, '.'), done, total, unit_, left);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

train::Observer observer_of(Progress& progress, const std::string& title) {
  progress.begin(title + ", setting up", "workers");
  return {.progress =
              [&progress, title, steps_begun = false](std::int64_t step, std::int64_t steps) mutable {
                if (!std::exchange(steps_begun, true)) progress.begin(title);
                progress.show(step, steps);
              },
          .stop_requested = interrupted,
          .warn =
              [&progress](const std::string& sentence) {
                progress.clear();
                fmt::print(stderr, "flockstep: {}\n", sentence);
              },
          .set_up = [&progress](std::int64_t ready, std::int64_t workers) { progress.show(ready, workers); }};
}

}  // namespace flockstep::cli
