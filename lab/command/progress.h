// How far a long command is, on standard error: a progress bar on a terminal, else a line every half a minute.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "train/loop.h"

namespace flockstep::command {

// The line comes from a thread of its own, since a step may last longer than the interval; so members are used under
// the mutex. What lasts less than the interval gets no line. FLOCKSTEP_PROGRESS_S sets it, in seconds; 0: no lines.
class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts a new bar; `label` stands before it, and `unit` is what it counts.
  void begin(const std::string& label, const std::string& unit = "steps");
  // Starts what cannot tell how far it is: no bar, but the line, also on a terminal.
  void begin_uncounted(const std::string& label);
  void show(std::int64_t done, std::int64_t total);  // often called, seldom drawn
  void show_at_once(std::int64_t done, std::int64_t total);
  // Of several runs, each with a bar of its own or in a process that draws one: for the line only.
  void set_runs(std::size_t made, std::size_t to_make);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw();
  void erase();
  std::string left() const;
  std::string line() const;
  void speak_now_and_then(const std::stop_token& stop);

  const bool visible_;
  const std::chrono::duration<double> interval_;  // of lines
  const Clock::time_point made_at_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  bool drawn_ = false, counted_ = false;
  std::string label_, unit_;
  std::int64_t done_ = 0, total_ = 0;
  std::optional<std::pair<std::size_t, std::size_t>> runs_;  // made, to make
  Clock::time_point begin_, last_;
  std::jthread speaker_;  // last: ends before what it uses
};

// For the environment of a process whose progress this one tells of: it prints no lines of its own.
std::string without_progress_lines();

// Watches a run: its set-up first, then its steps.
train::Observer observer_of(Progress& progress, const std::string& title);

}  // namespace flockstep::command
