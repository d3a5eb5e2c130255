// What a run came to, and the same as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/report.h"
#include "math/watch.h"
#include "telemetry/meetings.h"
#include "telemetry/step_times.h"

namespace flockstep::telemetry {

// A number under its name.
struct Figure {
  std::string name;
  double value = 0;
};

// One of the evaluations of a run, which together are its curve.
struct Evaluation {
  std::int64_t step = 0;  // steps done
  double time_s = 0, quality = 0;
};

// Of longer runs a summary keeps every second, third, ... evaluation and the last.
constexpr std::int64_t kMostEvaluations = 200;

// Filled alike on every worker, but for what only rank 0 can know (marked). A run without gradients has no metric, and
// nothing that is about quality.
struct Summary {
  std::int64_t steps = 0;
  bool interrupted = false;
  std::string metric;
  bool lower_is_better = true;
  double quality = 0;                   // on what is reported
  std::vector<Figure> figures;          // what else the last evaluation told
  std::optional<double> validation;     // the same figure on what was kept aside to choose by, at the end
  std::vector<Evaluation> evaluations;  // by step, the last one that of `quality`; about kMostEvaluations at most
  double train_loss = 0;                // mean over the workers, last step
  double time_s = 0;                    // of the worker that took longest for these steps
  double samples_per_s = 0;             // of all workers together, in that time
  double wait_share = 0;                // of that time, blocked in the engine; mean over the workers
  // Throughput over that of workers who compute for as long as pretended and never wait, stragglers' delays left out;
  // nothing where compute is real.
  std::optional<double> share_of_ideal;
  double bytes_sent_per_step =
      0;  // mean over the workers, of a model as large as pretended; evaluations and the like left out
  StepTimeFigures step_times;                 // of the steps of all workers, waiting left out
  std::optional<MeetingFigures> meetings;     // where models are averaged without waiting for everybody
  std::int64_t skipped_steps = 0;             // guard: a non-finite gradient, summed over the workers
  algorithms::GuardCounts guards;             // steps in which the rule's guards fired
  std::vector<math::Finding> findings;        // what is suspicious about the workers (rank 0)
  std::vector<std::string> notes;             // what a reader of the result should know
  std::string model_hash;                     // of rank 0's final model
  bool replicas_equal = true;                 // all workers ended on the same bits
  std::map<std::string, std::size_t> memory;  // bytes held by rank 0's buffers, by purpose (rank 0)

  bool has_quality() const { return !metric.empty(); }
};

nlohmann::json to_json(const Summary& summary);
// The line of metrics.jsonl about an evaluation after `step` steps.
nlohmann::json evaluation_line(const Summary& summary, std::int64_t step);
Summary summary_from_json(const nlohmann::json& json);

}  // namespace flockstep::telemetry
