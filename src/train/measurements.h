// What one worker measures of its steps, and what all workers' measurements come to.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/context.h"
#include "train/loop.h"

namespace flockstep::train {

// One step; travels as doubles.
struct StepRecord {
  double loss, seconds, waited_s, transferred_s;
};

class Measurements {
 public:
  void add(const StepRecord& record, std::int64_t samples, std::uint64_t bytes_sent, bool skipped);
  // A step whose result was not finite, though its rule had seen nothing.
  void add_unseen_non_finite() { ++totals_.unseen_non_finite; }

  // Collective: adds up over the workers into the summary's figures, `steps` being those done; turns the records since
  // the last forget() into their means. Returns true if somebody asked to stop.
  bool add_up(runtime::Context& context, std::int64_t steps, bool stop_requested, Summary& summary);
  const std::vector<StepRecord>& records() const { return records_; }
  void forget() { records_.clear(); }

  // `workers` is the number in the run that saved; where it differs, everybody restores worker 0's.
  void save(base::Archive& archive) const { archive.put_value("totals", totals_); }
  void restore(const base::Archive& archive, const runtime::Context& context, int workers);

 private:
  // Over the whole run, a resumed one included.
  struct Totals {
    double seconds = 0, waited_s = 0, samples = 0, bytes_sent = 0, skipped = 0, unseen_non_finite = 0;
  } totals_;
  std::vector<StepRecord> records_;
};

}  // namespace flockstep::train
