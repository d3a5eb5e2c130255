// What a run comes to: one worker's measurements, evaluations and findings, the summary of all workers', and the files
// in `out` but for checkpoints. The loop's clock stands still wherever a function here is collective.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "session/session.h"
#include "telemetry/metrics_file.h"
#include "telemetry/telemetry.h"
#include "train/evaluator.h"
#include "train/measurements.h"

namespace flockstep::train {

class RunRecord {
 public:
  // All outlive it.
  RunRecord(runtime::Context& context, const TrainOptions& options, session::Session& session, Task& task,
            const runtime::Layout& layout);
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  Measurements& measurements() { return measurements_; }
  telemetry::Summary& summary() { return summary_; }
  bool evaluates() const { return evaluator_.has_value(); }  // where there are gradients

  // On rank 0, where there is a folder: metrics.jsonl, behind its first `keep` bytes.
  void open(std::uint64_t keep);
  // What the gradients of the step that is being taken tell.
  void observe_gradients();

  // Collective: adds up what the workers have measured, and writes a line per step since the last time.
  void flush();
  // Collective: flush(), and the quality of the model.
  void evaluate(std::span<const float> model);
  // In place of evaluate(), for the next flush(), which evaluates it: no worker waits for another.
  void take_snapshot(std::span<const float> model);
  bool has_no_room_for_snapshots(std::size_t numbers) const;

  // Right after a flush().
  void save(base::Archive& archive) const;
  // `workers` is the number in the run that saved.
  void restore(const base::Archive& archive, int workers);

  // Collective, when agents have come to rest: makes equal what lies behind equal parameters, and writes the summary
  // and the trace.
  void finish(std::span<float> model);

 private:
  // What a worker hands to a later evaluation, instead of waiting for the other workers.
  struct Snapshot {
    std::int64_t step;
    std::span<float> model;
    Measurements measurements;
    std::optional<algorithms::MeetingReport> meetings;
    algorithms::GuardCounts guards;
  };

  std::int64_t steps_done() const { return session_.updates(); }
  void evaluate_snapshots();
  void write_step_lines();
  std::uint64_t sent_in_messages() const;
  void count_messages();
  void tell_quality(std::int64_t step) const;
  void compare_models(std::span<const float> model);
  void gather_findings();

  runtime::Context& context_;
  const TrainOptions& options_;
  session::Session& session_;
  Measurements measurements_;
  std::optional<Evaluator> evaluator_;
  std::vector<Snapshot> snapshots_;                  // not evaluated yet; the same steps on all workers
  std::unique_ptr<telemetry::MetricsFile> metrics_;  // rank 0 only
  telemetry::Telemetry telemetry_;                   // rank 0 only
  std::int64_t evaluated_ = -1;                      // the last step with an evaluation, or a snapshot for one
  std::uint64_t counted_messages_;                   // bytes of messages that measurements_ knows
  telemetry::Summary summary_;
};

}  // namespace flockstep::train
