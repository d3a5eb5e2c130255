// A progress bar on a terminal's standard error; nothing when that is piped.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace flockstep::cli {

class Progress {
 public:
  Progress();
  ~Progress() { clear(); }

  // Starts a new bar; `label` stands before it.
  void begin(const std::string& label);
  void show(std::int64_t done, std::int64_t total);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool visible_;
  bool drawn_ = false;
  std::string label_;
  Clock::time_point begin_, last_;
};

}  // namespace flockstep::cli
