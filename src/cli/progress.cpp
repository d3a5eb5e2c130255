#include "cli/progress.h"

#include <fmt/core.h>
#include <unistd.h>

namespace flockstep::cli {

Progress::Progress() : visible_(::isatty(STDERR_FILENO) == 1) {}

void Progress::begin(const std::string& label) {
  label_ = label;
  begin_ = Clock::now();
  last_ = {};
}

void Progress::show(std::int64_t done, std::int64_t total) {
  const auto now = Clock::now();
  if (!visible_ || (done < total && now - last_ < std::chrono::milliseconds(100))) return;
  last_ = now;
  constexpr std::int64_t kCells = 30;
  const auto filled = static_cast<std::size_t>(total > 0 ? kCells * done / total : kCells);
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const double left = done > 0 ? elapsed * static_cast<double>(total - done) / static_cast<double>(done) : 0;
  fmt::print(stderr, "\r\033[K{} [{}{}] {}/{} steps, {:.0f} s left", label_, std::string(filled, '#'),
             std::string(static_cast<std::size_t>(kCells) - filled, '.'), done, total, left);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace flockstep::cli
