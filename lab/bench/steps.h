// How long a step of training takes, measured on a real engine or simulated: an algorithm's hooks around a model of any
// size, whose gradient a device would compute. Without a task, an optimizer or an evaluation.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "engines/engine.h"

namespace flockstep::bench {

struct StepCase {
  std::string algorithm;
  std::size_t floats = 0;
  double compute_ms = 0;  // slept, or simulated
};
struct StepTime {
  StepCase of;
  Spread seconds;
};
struct StepOptions {
  int steps = 10;  // at a time, and the period of algorithms that have one: each time is that of a whole period
  int rounds = 5;
};

// Of the slowest worker, one step in the mean of so many. Collective; the same result on every worker.
StepTime measure_steps(engines::Engine& engine, const StepCase& which, const StepOptions& options);

// Of a number of workers, and in a file.
struct StepTimes {
  std::string engine;
  int workers = 0;
  int steps = 0;  // as in StepOptions
  std::vector<StepTime> times;
};
nlohmann::json to_json(const StepTimes& times);
// Nothing from what to_json would not have written.
std::optional<StepTimes> step_times_from_json(const nlohmann::json& json);

}  // namespace flockstep::bench
