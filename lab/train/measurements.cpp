#include "train/measurements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engines/all_reduce.h"

namespace flockstep::train {
namespace {

// What consists of doubles, at the end of a list of them, and from there back again.
template <typename T>
void append(std::vector<double>& list, std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(double) == 0);
  const std::size_t before = list.size();
  list.resize(before + values.size_bytes() / sizeof(double));
  if (!values.empty()) std::memcpy(&list[before], values.data(), values.size_bytes());
}
template <typename T>
void take_last(std::vector<double>& list, std::span<T> values) {
  const std::size_t count = values.size_bytes() / sizeof(double);
  if (!values.empty()) std::memcpy(static_cast<void*>(values.data()), &list[list.size() - count], values.size_bytes());
  list.resize(list.size() - count);
}

}  // namespace

void Measurements::add(const telemetry::StepRecord& record, std::int64_t samples) {
  records_.push_back(record);
  totals_.seconds += record.seconds;
  totals_.waited_s += record.waited_s;
  totals_.samples += static_cast<double>(samples);
  const double computed = record.seconds - record.waited_s;
  step_times_.add(computed);
  longest_s_ = std::max(longest_s_, computed);
}

void Measurements::add_meeting(double waited_s) {
  telemetry::StepRecord& last = records_.back();
  last.seconds += waited_s;
  last.waited_s += waited_s;
  totals_.seconds += waited_s;
  totals_.waited_s += waited_s;
}

void Measurements::add_up(runtime::Context& context, std::int64_t steps, const algorithms::MeetingReport* meetings,
                          telemetry::Summary& summary) {
  const double share = 1.0 / context.size();
  std::vector<double> sums{
      share * totals_.waited_s,
      totals_.samples,
      steps > 0 ? share * totals_.bytes_sent / static_cast<double>(steps) : 0,
      totals_.skipped,
      share * totals_.pretended_s,
  };
  const std::size_t figures = sums.size();
  append<telemetry::StepRecord>(sums, records_);
  if (meetings) {
    meetings_ = earlier_;
    meetings_.add(*meetings);
    append<telemetry::MeetingTotals>(sums, {&meetings_, 1});
  }
  all_step_times_ = earlier_step_times_;
  all_step_times_.add(step_times_);
  append<telemetry::StepTimes>(sums, {&all_step_times_, 1});
  // The largest by way of a sum: everybody has a place of its own.
  std::vector<double> longest(static_cast<std::size_t>(context.size())), seconds(longest.size());
  longest[static_cast<std::size_t>(context.rank())] = longest_s_;
  seconds[static_cast<std::size_t>(context.rank())] = totals_.seconds;
  append<double>(sums, longest);
  append<double>(sums, seconds);
  sums = engines::all_reduce(context.engine(), std::move(sums), context.deadline());
  take_last<double>(sums, seconds);
  take_last<double>(sums, longest);
  take_last<telemetry::StepTimes>(sums, {&all_step_times_, 1});
  longest_s_ = std::ranges::max(longest);
  summary.step_times = all_step_times_.figures(longest_s_);
  if (meetings) {
    take_last<telemetry::MeetingTotals>(sums, {&meetings_, 1});
    summary.meetings = meetings_.figures();
  }
  for (std::size_t i = figures; i < sums.size(); ++i) sums[i] /= context.size();
  take_last<telemetry::StepRecord>(sums, records_);
  summary.time_s = std::ranges::max(seconds);
  summary.wait_share = summary.time_s > 0 ? sums[0] / summary.time_s : 0;
  summary.samples_per_s = summary.time_s > 0 ? sums[1] / summary.time_s : 0;
  summary.bytes_sent_per_step = sums[2];
  summary.skipped_steps = std::llround(sums[3]);
  if (sums[4] > 0 && summary.time_s > 0) summary.share_of_ideal = sums[4] / summary.time_s;
  if (!records_.empty()) summary.train_loss = records_.back().loss;
}

Measurements Measurements::with_last_record() const {
  Measurements copy = *this;
  copy.records_ = {records_.back()};
  return copy;
}

void Measurements::save(base::Archive& archive) const {
  archive.put_value("totals", totals_);
  archive.put_value("meetings", meetings_);
  archive.put_value("step times", all_step_times_);
  archive.put_value("longest step", longest_s_);
}

void Measurements::restore(const base::Archive& archive, const runtime::Context& context, int workers) {
  totals_ = archive.get_value<Totals>("totals");
  longest_s_ = archive.get_value<double>("longest step");
  if (context.rank() == 0) {
    earlier_ = archive.get_value<telemetry::MeetingTotals>("meetings");
    earlier_step_times_ = archive.get_value<telemetry::StepTimes>("step times");
  }
  if (workers == context.size()) return;
  totals_.samples *= static_cast<double>(workers) / context.size();
  totals_.skipped = context.rank() == 0 ? totals_.skipped * workers : 0;
}

}  // namespace flockstep::train
