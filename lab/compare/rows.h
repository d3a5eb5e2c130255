// What the runs of one variant come to: a row of the comparison, under the best value of the search.
#pragma once

#include "compare/compare.h"

namespace flockstep::compare {

// Figures of the runs with one variant and value, in the order of their seeds.
struct Collected {
  std::vector<double> quality, validation, samples_per_s, wait_share, share_of_ideal, time_s;
  bool has_validation = false;
  double bytes_sent_per_step = 0;
  std::vector<telemetry::MeetingFigures> meetings;
  std::vector<std::string> folders;
  std::vector<Evaluations> evaluations;
};
void add_run(Collected& collected, const telemetry::Summary& summary, const std::string& folder);

// The runs with one value of the search.
struct ValueRuns {
  Collected trials;  // with the seeds that choose the value
  Collected all;     // and with the others, which only the chosen value gets
};

// The place of the value that its trials speak for. There has to be one run at least.
std::size_t best_value(const Variant& variant, const std::vector<ValueRuns>& values, bool lower_is_better);
Row row_of(const Plan& plan, const Variant& variant, const std::vector<ValueRuns>& values, bool lower_is_better);

}  // namespace flockstep::compare
