// What one worker measures where somebody else's loop trains, and the files that a run of the command would leave of
// it, written without asking other workers for anything. Worker 0 writes metrics.jsonl and summary.json; each other
// what only it knows, as metrics-3.jsonl, and whoever draws a report takes the means. Who is the last to end makes
// trace.json.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/context.h"
#include "session/steps.h"
#include "telemetry/metrics_file.h"
#include "telemetry/summary.h"
#include "telemetry/telemetry.h"

namespace flockstep::torch_front {

struct RecordingSettings {
  std::filesystem::path folder = {};                // empty: no files
  std::string algorithm = "mean";                   // as in `flockstep algorithms`
  std::map<std::string, std::string> options = {};  // its own
};

class Recording {
 public:
  // Before anything else uses the context, in whose trace it makes room. Throws Error{bad_file}.
  Recording(runtime::Context& context, RecordingSettings settings);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // On the thread that uses the context: a step has ended. `step` counts from 1; the first one added here may be a
  // later one, where a run goes on. At `computed` the worker had its gradient, or its updated model. Null: nobody looks
  // at gradients; models meet in lockstep; nobody watches. A file that cannot be written does not end the training: see
  // close().
  void add(std::int64_t step, base::Time computed, const algorithms::GradientReport* report,
           const algorithms::MeetingReport* meetings = nullptr, const session::Steps* watched = nullptr);

  // The others are for any thread. The loss is this worker's, of the last step that has ended.
  void set_loss(double loss);
  // Of the model after that step; before the first there is none. The time since is no part of the training.
  void add_evaluation(const std::string& metric, double quality, bool lower_is_better);
  // By name: of the last step, and of the run so far.
  std::map<std::string, double> figures() const;
  // Writes what is left, once nothing uses the context any more. A second call does nothing. Throws Error{bad_file},
  // also for what could not be written before.
  void close();

 private:
  std::filesystem::path metrics_path() const;
  void open(std::int64_t step);
  void write_step();
  void write_summary();
  template <typename Body>
  void with_file(const Body& body);

  runtime::Context& context_;
  const RecordingSettings settings_;
  const double epoch_s_;  // when the engine's time began, in seconds since 1970
  mutable std::mutex mutex_;
  bool has_files_, evaluated_ = false, closed_ = false;
  std::optional<telemetry::MetricsFile> metrics_;
  std::exception_ptr broken_;
  telemetry::Telemetry telemetry_;  // worker 0 only
  telemetry::Summary summary_;
  std::int64_t steps_ = 0;                                // added here
  telemetry::StepRecord step_{};                          // the last one
  bool is_written_ = true;                                // not before the next one: its loss may still come
  std::vector<double> norms_, coefficients_, agreement_;  // of that step, by worker
  base::Time began_, flushed_;                            // the next step; when the file was last brought up to date
  double waited_s_, transferred_s_, waited_in_steps_s_ = 0;
  const std::uint64_t sent_before_;
};

}  // namespace flockstep::torch_front
