#include "command/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/settings.h"
#include "command/launcher.h"
#include "command/signals.h"

namespace flockstep::command {
namespace {

constexpr const char* kVariable = "FLOCKSTEP_PROGRESS_S";
constexpr double kInterval_s = 30;

// Zero: no lines.
std::chrono::duration<double> interval() {
  const char* given = std::getenv(kVariable);
  return std::chrono::duration<double>(given ? base::parse_real(kVariable, given, 0, 1e6) : kInterval_s);
}

}  // namespace

std::string without_progress_lines() { return fmt::format("{}=0", kVariable); }

Progress::Progress() : visible_(::isatty(STDERR_FILENO) == 1), interval_(interval()) {
  if (interval_.count() == 0 || !speaks()) return;
  const HeldSignals held;  // for the thread, which begins with this one's: they are for the main thread
  speaker_ = std::jthread([this](const std::stop_token& stop) { speak_now_and_then(stop); });
}

void Progress::begin(const std::string& label, const std::string& unit) {
  const std::lock_guard lock(mutex_);
  label_ = label;
  unit_ = unit;
  counted_ = true;
  done_ = total_ = 0;
  begin_ = Clock::now();
  last_ = {};
}

void Progress::begin_uncounted(const std::string& label) {
  const std::lock_guard lock(mutex_);
  label_ = label;
  counted_ = false;
}

void Progress::show(std::int64_t done, std::int64_t total) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  if (visible_ && (done == total || Clock::now() - last_ >= std::chrono::milliseconds(100))) draw();
}

void Progress::show_at_once(std::int64_t done, std::int64_t total) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  if (visible_) draw();
}

void Progress::set_runs(std::size_t made, std::size_t to_make) {
  const std::lock_guard lock(mutex_);
  runs_ = {made, to_make};
}

std::string Progress::left() const {
  if (done_ == 0) return "";
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  return fmt::format(", {:.0f} s left", elapsed * static_cast<double>(total_ - done_) / static_cast<double>(done_));
}

void Progress::draw() {
  last_ = Clock::now();
  constexpr std::int64_t kCells = 30;
  const auto filled = static_cast<std::size_t>(total_ > 0 ? kCells * done_ / total_ : kCells);
  fmt::print(stderr, "\r\033[K{} [{}{}] {}/{} {}{}", label_, std::string(filled, '#'),
             std::string(static_cast<std::size_t>(kCells) - filled, '.'), done_, total_, unit_, left());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::erase() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  erase();
}

std::string Progress::line() const {
  std::string text =
      fmt::format("flockstep: after {:.0f} s: ", std::chrono::duration<double>(Clock::now() - made_at_).count());
  if (runs_)
    text += fmt::format("run {} of {}{}", std::min(runs_->first + 1, runs_->second), runs_->second,
                        label_.empty() ? "" : ", ");
  text += label_;
  if (counted_ && total_ > 0) text += fmt::format(", {}/{} {}{}", done_, total_, unit_, left());
  return text;
}

void Progress::speak_now_and_then(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    stopped_.wait_for(lock, stop, interval_, [] { return false; });
    if (stop.stop_requested()) return;
    const bool has_bar = visible_ && (counted_ || runs_);
    if (has_bar || (label_.empty() && !runs_)) continue;
    erase();
    fmt::print(stderr, "{}\n", line());
  }
}

train::Observer observer_of(Progress& progress, const std::string& title) {
  progress.begin(title + ", setting up", "workers");
  return {.progress =
              [&progress, title, steps_begun = false](std::int64_t step, std::int64_t steps) mutable {
                if (!std::exchange(steps_begun, true)) progress.begin(title);
                progress.show(step, steps);
              },
          .warn =
              [&progress](const std::string& sentence) {
                progress.clear();
                fmt::print(stderr, "flockstep: {}\n", sentence);
              },
          .set_up = [&progress](std::int64_t ready, std::int64_t workers) { progress.show(ready, workers); }};
}

}  // namespace flockstep::command
