// What one worker measures of its steps, and what all workers' measurements come to.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/context.h"
#include "telemetry/metrics_file.h"
#include "telemetry/step_times.h"
#include "telemetry/summary.h"

namespace flockstep::train {

class Measurements {
 public:
  void add(const telemetry::StepRecord& record, std::int64_t samples);
  // This worker's wait, after the last step, for everybody to be there: a part of that step, so that lines of steps add
  // up to the whole time.
  void add_meeting(double waited_s);
  void add_sent(std::uint64_t bytes) { totals_.bytes_sent += static_cast<double>(bytes); }
  // What a step pretended to compute.
  void add_pretended(double seconds) { totals_.pretended_s += seconds; }
  // An update that was not made, its gradient not being finite.
  void add_skipped() { ++totals_.skipped; }

  // Collective: adds up over the workers into the summary's figures, `steps` being those done; turns the records since
  // the last forget() into their means. `meetings` are this worker's since it began, null on all or on none.
  void add_up(runtime::Context& context, std::int64_t steps, const algorithms::MeetingReport* meetings,
              telemetry::Summary& summary);
  const std::vector<telemetry::StepRecord>& records() const { return records_; }
  void forget() { records_.clear(); }
  // A copy that has forgotten the records of earlier steps.
  Measurements with_last_record() const;

  // `workers` is the number in the run that saved; where it differs, everybody restores worker 0's.
  void save(base::Archive& archive) const;
  void restore(const base::Archive& archive, const runtime::Context& context, int workers);

 private:
  // Over the whole run, a resumed one included.
  struct Totals {
    double seconds = 0, waited_s = 0, pretended_s = 0, samples = 0, bytes_sent = 0, skipped = 0;
  } totals_;
  double longest_s_ = 0;                     // step of this worker, or of any as last added up
  telemetry::StepTimes step_times_;          // of this worker, since it began
  telemetry::StepTimes earlier_step_times_;  // before a resume, of all workers together; rank 0 only
  telemetry::StepTimes all_step_times_;      // of all workers, as last added up
  telemetry::MeetingTotals earlier_;         // before a resume, of all workers together; rank 0 only
  telemetry::MeetingTotals meetings_;        // of all workers, as last added up
  std::vector<telemetry::StepRecord> records_;
};

}  // namespace flockstep::train
