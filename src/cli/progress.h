// A progress bar on a terminal's standard error; nothing when that is piped.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/loop.h"

namespace flockstep::cli {

class Progress {
 public:
  Progress();
  ~Progress() { clear(); }

  // Starts a new bar; `label` stands before it, and `unit` is what it counts.
  void begin(const std::string& label, const std::string& unit = "steps");
  void show(std::int64_t done, std::int64_t total);  // often called, seldom drawn
  void show_at_once(std::int64_t done, std::int64_t total);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool visible_;
  bool drawn_ = false;
  std::string label_, unit_;
  Clock::time_point begin_, last_;
};

// Watches a run: its set-up first, then its steps.
train::Observer observer_of(Progress& progress, const std::string& title);

}  // namespace flockstep::cli
