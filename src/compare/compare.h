// The same training under several algorithms and seeds, side by side.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tasks/run.h"

namespace flockstep::compare {

struct CompareRequest {
  tasks::RunRequest base;  // its algorithm and seed are the first of the lists below
  std::vector<std::string> algorithms;
  std::map<std::string, base::Settings> algorithm_settings;
  std::function<bool()> stop_requested = [] { return false; };  // asked before every run
  int seeds = 1;                                                // base.train.seed and those that follow it
  std::filesystem::path out;                                    // a folder per run below it; empty: nothing is written
};

// Mean over the seeds, and the sample standard deviation (0 for one seed).
struct Spread {
  double mean = 0, deviation = 0;
};
Spread spread_of(const std::vector<double>& values);

struct Row {
  std::string algorithm;
  int runs = 0;
  Spread quality, samples_per_s, wait_share, time_s;
  double bytes_sent_per_step = 0;
};

struct Comparison {
  std::vector<Row> rows;     // in the order of the request; algorithms without a finished run are left out
  bool interrupted = false;  // some runs are missing or short
  std::string metric;
  bool lower_is_better = true;
  int workers = 0;
  int rank = 0;        // 0 where this process should speak for the comparison
  nlohmann::json how;  // task, engine, seeds and pace of the runs
};

// Executes one run; how is the caller's choice (here, or in a process of its own).
using Execute = std::function<tasks::RunOutcome(const tasks::RunRequest&)>;

// Seeds outermost, so that what disturbs the machine disturbs all algorithms alike. Stops after an interrupted run.
Comparison compare(const CompareRequest& request, const Execute& execute);

nlohmann::json to_json(const Comparison& comparison);

// Who won what, in one sentence. Empty for fewer than two rows.
std::string verdict(const Comparison& comparison);

}  // namespace flockstep::compare
