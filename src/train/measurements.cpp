#include "train/measurements.h"

#include <cmath>
#include <cstring>

#include "engines/all_reduce.h"

namespace flockstep::train {

void Measurements::add(const StepRecord& record, std::int64_t samples, std::uint64_t bytes_sent, bool skipped) {
  records_.push_back(record);
  totals_.seconds += record.seconds;
  totals_.waited_s += record.waited_s;
  totals_.samples += static_cast<double>(samples);
  totals_.bytes_sent += static_cast<double>(bytes_sent);
  totals_.skipped += skipped ? 1 : 0;
}

bool Measurements::add_up(runtime::Context& context, std::int64_t steps, bool stop_requested, Summary& summary) {
  const double share = 1.0 / context.size(), seconds = totals_.seconds;
  std::vector<double> sums{
      stop_requested ? 1.0 : 0.0,
      share * seconds,
      seconds > 0 ? share * totals_.waited_s / seconds : 0,
      seconds > 0 ? totals_.samples / seconds : 0,
      steps > 0 ? share * totals_.bytes_sent / static_cast<double>(steps) : 0,
      totals_.skipped,
  };
  const std::size_t figures = sums.size(), doubles = records_.size() * sizeof(StepRecord) / sizeof(double);
  sums.resize(figures + doubles);
  if (doubles > 0) std::memcpy(&sums[figures], records_.data(), doubles * sizeof(double));
  engines::all_reduce(context.engine(), sums, context.deadline());
  summary.time_s = sums[1];
  summary.wait_share = sums[2];
  summary.samples_per_s = sums[3];
  summary.bytes_sent_per_step = sums[4];
  summary.skipped_steps = std::llround(sums[5]);
  summary.guards.non_finite += std::llround(totals_.unseen_non_finite);
  for (std::size_t i = figures; i < sums.size(); ++i) sums[i] /= context.size();
  if (doubles > 0) std::memcpy(records_.data(), &sums[figures], doubles * sizeof(double));
  if (!records_.empty()) summary.train_loss = records_.back().loss;
  return sums[0] > 0;
}

void Measurements::restore(const base::Archive& archive, const runtime::Context& context, int workers) {
  totals_ = archive.get_value<Totals>("totals");
  if (workers == context.size()) return;
  totals_.samples *= static_cast<double>(workers) / context.size();
  totals_.skipped = context.rank() == 0 ? totals_.skipped * workers : 0;
}

}  // namespace flockstep::train
