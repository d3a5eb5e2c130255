// The same training under several algorithms, seeds and sizes, side by side.
//
// compare.json has the fields of these structs by their names. Those of a row's best value stand in the row itself,
// and:
//   case: target                      quality whose time is told, or null
//         about, table, tried_table, notes   as people read them: tables.h. A table has columns [...] and rows [[...]]
//   row:  target_time_s (a spread)    median over the seeds: null where most did not get there; min, max: of those who
//   did
//         target_reached              how many seeds did
//         validation (a spread)       null for a task that keeps nothing aside
//         searched.by                 "validation" or "quality": what chose the value
//         share_of_ideal (a spread)   null where compute is real
//         curve                       steps [...], time_s [...], quality {mean [...], min [...], max [...]}
// Without gradients there is no metric, and nothing in cases and rows that is about quality.
#pragma once

#include <nlohmann/json.hpp>

#include "compare/curve.h"
#include "compare/plan.h"

namespace flockstep::compare {

// How models met, where they are averaged without waiting for everybody (train/meetings.h).
struct Meetings {
  Spread fresh_fraction, alone_share, mean_staleness, mean_round_s;
  std::vector<std::int64_t> staleness;  // added up over the seeds
};

struct Result {
  int runs = 0;
  int diverged = 0;  // of them, those whose quality is no number
  Spread quality, samples_per_s, wait_share, time_s;
  std::optional<Spread> validation;      // quality on what the task keeps aside, where it does
  std::optional<Spread> share_of_ideal;  // throughput over that of workers who never wait, where compute is pretended
  double bytes_sent_per_step = 0;
  std::optional<Meetings> meetings;
  std::vector<std::string> folders;      // of the runs, below the comparison's; empty when nothing was written
  std::vector<Evaluations> evaluations;  // of each run
};

struct Tried {
  std::string value;
  Result result;
};

struct Searched {
  std::string name, value;     // images.learning_rate, 0.1
  bool edge = false;           // the smallest or largest of the list: a better one may lie beyond
  bool by_validation = false;  // it had the best `validation`; else, the best `quality`
  int seeds = 1;               // with which it was chosen
};

struct Row {
  std::string algorithm;  // the variant's label
  Result result;          // under the best value, where one was searched
  std::optional<Searched> searched;
  std::vector<Tried> tried;  // with the seeds that choose
  Curve curve;
  std::optional<TargetTime> target;  // where the case has one
};

// What a table shows of quality. Where seeds lie orders of magnitude apart, or some diverged, the mean says little.
enum class Statistic { single, mean, median };

struct CaseResult {
  int workers = 0;
  std::int64_t batch = 0;
  std::vector<Row> rows;  // in the order of the request; variants without a finished run are left out
  // As asked for, or nine tenths of the way from the untrained models to where the algorithms end, in the median over
  // them, unless a run began with as much.
  std::optional<double> target;
};
Statistic statistic_of(const CaseResult& result);

struct Comparison {
  std::vector<CaseResult> cases;  // those with a row
  bool interrupted = false;       // some runs are missing
  // Sentences, without their ends, on runs that were stopped: they are in no row.
  std::vector<std::string> unfinished;
  std::string metric;  // empty: the runs have no gradients, and nothing here is about quality
  bool lower_is_better = true;
  int rank = 0;        // 0 where this process should speak for the comparison
  nlohmann::json how;  // task, engine, settings, seeds and pace of the runs

  bool has_quality() const { return !metric.empty(); }
};

// Makes runs, one or several at a time; how is the caller's choice (here, or in processes of their own).
class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::size_t at_a_time() const = 0;
  // Called for the runs of a plan in their order, as far as a search allows, with fewer than `at_a_time` of them under
  // way.
  virtual void start(const PlannedRun& run) = 0;
  struct Ended {
    const PlannedRun* run;
    runs::RunOutcome outcome;
  };
  // Waits for any of those under way, of which there is one at least.
  virtual Ended wait_for_one() = 0;
};

// Starts no run after an interrupted one. What comes of it does not depend on the order in which runs end. compare.json
// is written after every run, so that a study that fails late loses nothing; until all is done it says that it was
// interrupted.
Comparison compare(const CompareRequest& request, Runner& runner);

// One run at a time.
using Execute = std::function<runs::RunOutcome(const PlannedRun&)>;
Comparison compare(const CompareRequest& request, const Execute& execute);

nlohmann::json to_json(const Comparison& comparison);

// Who won what, in one or two sentences. Empty for fewer than two rows.
std::string verdict(const Comparison& comparison, const CaseResult& result);

}  // namespace flockstep::compare
