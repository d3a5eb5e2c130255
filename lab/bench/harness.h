// Fair timing for every benchmark here: contenders run in turns, so that whatever else the machine does hits all alike.
//
// It measures wall time and returns figures. Checking that a contender computes the right thing comes before, and
// printing after: neither is its business.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace flockstep::bench {

// The middle of some measurements, and the quartiles as their spread.
struct Spread {
  double median = 0;
  double lower = 0;  // a quarter of the measurements are below
  double upper = 0;  // a quarter are above
};

// Quartiles between two measurements are interpolated. `values` must not be empty.
Spread spread_of(std::span<const double> values);

struct Contender {
  std::string name;
  std::function<void()> run;
  std::function<void()> prepare = [] {};  // before each run, outside the time
};

struct HarnessOptions {
  std::size_t warm_up_rounds = 2;
  std::size_t rounds = 15;
};

// The times of contenders that ran in turns: times[c][r] is what contender c took in round r, in seconds.
class Timings {
 public:
  Timings(std::vector<std::string> names, std::vector<std::vector<double>> times);

  std::span<const std::string> names() const { return names_; }
  std::span<const double> seconds_of(const std::string& name) const;
  Spread seconds(const std::string& name) const { return spread_of(seconds_of(name)); }

  // The time of one over the time of the other, taken within each round and only then summarised: a round that was slow
  // as a whole leaves it alone.
  Spread ratio(const std::string& numerator, const std::string& denominator) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<double>> times_;
};

// Runs the contenders, whose names must differ, once per round, each round starting with the next one. The warm-up
// rounds are not in the result.
Timings run_interleaved(std::span<const Contender> contenders, const HarnessOptions& options);

// One line of the table of targets: a measured figure and the bar it has to meet.
struct TargetResult {
  std::string id;       // as in the table, "K1"
  std::string measure;  // what was measured, with its parameters
  double figure = 0;
  double bar = 0;
  bool at_most = true;  // the figure may be at most the bar; else at least
  Spread spread;        // of the figure; zero where it is not a median

  bool holds() const { return at_most ? figure <= bar : figure >= bar; }
};
// Of a figure that does not spread.
inline Spread constant(double value) { return {.median = value, .lower = value, .upper = value}; }

// The figure is the median of the spread.
TargetResult at_most(std::string id, std::string measure, const Spread& spread, double bar);
TargetResult at_least(std::string id, std::string measure, const Spread& spread, double bar);

}  // namespace flockstep::bench
