#include "session/steps.h"

#include <algorithm>

#include "kernels/cpu/kernels.h"

namespace flockstep::session {

void Steps::add(const algorithms::GradientReport* report) {
  ++counts_.steps;
  raised_.clear();
  is_own_ = !report;
  event_ = report ? report->event : math::Event::none;
  is_told_ = event_ == math::Event::non_finite;
  if (watches_ && report && !report->statistics.q.empty())
    raised_ = watch_.observe(counts_.steps, report->statistics, report->clipped, report->left_out, report->stuck);
}

bool Steps::accepts(std::span<const float> gradient) {
  if (!kernels::cpu::has_non_finite(gradient)) return true;
  refuse(is_own_, is_told_);
  return false;
}

void Steps::refuse(bool is_own, bool is_told) {
  if (!is_told) ++(is_own ? counts_.own_non_finite : counts_.unseen_non_finite);
  event_ = math::Event::non_finite;
}

std::vector<math::Finding> Steps::findings() const {
  std::vector<math::Finding> all = earlier_;
  for (const math::Finding& finding : watch_.findings()) {
    const auto same = std::ranges::find_if(all, [&](const math::Finding& other) {
      return other.kind == finding.kind && other.workers == finding.workers;
    });
    if (same == all.end())
      all.push_back(finding);
    else
      *same = finding;
  }
  return all;
}

void Steps::save(base::Archive& archive) const { archive.put_value("steps", counts_); }

void Steps::restore(const base::Archive& archive) {
  counts_ = archive.get_value<Counts>("steps");
  watch_ = {};
}

void Steps::go_on_after(std::int64_t steps) {
  counts_.steps = steps;
  watch_ = {};
}

}  // namespace flockstep::session
