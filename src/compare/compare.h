// The same training under several algorithms, seeds and sizes, side by side.
#pragma once

#include <nlohmann/json.hpp>

#include "compare/plan.h"

namespace flockstep::compare {

// Of one figure over the seeds. A seed that ended without a number (NaN or infinite) has no mean, so with one of those
// mean and deviation are NaN; for the median it counts as worst, and min and max are those of the others.
struct Spread {
  double mean = 0, deviation = 0, median = 0, min = 0, max = 0;  // deviation: of the sample, 0 for one seed
};
Spread spread_of(const std::vector<double>& values, bool lower_is_better = true);

// How models met, where they are averaged without waiting for everybody (train/meetings.h).
struct Meetings {
  Spread fresh_fraction, alone_share, mean_staleness, mean_round_s;
  std::vector<std::int64_t> staleness;  // added up over the seeds
};

struct Result {
  int runs = 0;
  int diverged = 0;  // of them, those whose quality is no number
  Spread quality, samples_per_s, wait_share, time_s;
  double bytes_sent_per_step = 0;
  std::optional<Meetings> meetings;
  std::vector<std::string> folders;  // of the runs, below the comparison's; empty when nothing was written
};

struct Tried {
  std::string value;
  Result result;
};

struct Searched {
  std::string name, value;  // images.learning_rate, 0.1
  bool edge = false;        // the smallest or largest of the list: a better one may lie beyond
};

struct Row {
  std::string algorithm;  // the variant's label
  Result result;          // under the best value, where one was searched
  std::optional<Searched> searched;
  std::vector<Tried> tried;
};

// What a table shows of quality. Where seeds lie orders of magnitude apart, or some diverged, the mean says little.
enum class Statistic { single, mean, median };

struct CaseResult {
  int workers = 0;
  std::int64_t batch = 0;
  std::vector<Row> rows;  // in the order of the request; variants without a finished run are left out
};
Statistic statistic_of(const CaseResult& result);

struct Comparison {
  std::vector<CaseResult> cases;  // those with a row
  bool interrupted = false;       // some runs are missing or short
  std::string metric;
  bool lower_is_better = true;
  int rank = 0;        // 0 where this process should speak for the comparison
  nlohmann::json how;  // task, engine, settings, seeds and pace of the runs
};

// Executes one run; how is the caller's choice (here, or in a process of its own).
using Execute = std::function<tasks::RunOutcome(const PlannedRun&)>;

// Stops after an interrupted run. compare.json is written after every run, so that a study that fails late loses
// nothing; until all is done it says that it was interrupted.
Comparison compare(const CompareRequest& request, const Execute& execute);

nlohmann::json to_json(const Comparison& comparison);

// Who won what, in one sentence. Empty for fewer than two rows.
std::string verdict(const Comparison& comparison, const CaseResult& result);

}  // namespace flockstep::compare
