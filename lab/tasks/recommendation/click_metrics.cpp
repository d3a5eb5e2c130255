#include "tasks/recommendation/click_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace flockstep::tasks {

double area_under_curve(std::span<const double> scores, std::span<const std::uint8_t> labels) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (std::ranges::any_of(scores, [](double score) { return std::isnan(score); })) return kNone;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return scores[i]; });

  // Counts are whole numbers: no rounding before the division.
  std::uint64_t clicks = 0, others = 0, halves = 0;  // so far, and twice the pairs that are in order
  for (std::size_t begin = 0; begin < order.size();) {
    std::uint64_t equal_clicks = 0, equal_others = 0;
    const double score = scores[order[begin]];
    for (; begin < order.size() && scores[order[begin]] == score; ++begin)
      ++(labels[order[begin]] ? equal_clicks : equal_others);
    halves += equal_clicks * (2 * others + equal_others);
    clicks += equal_clicks;
    others += equal_others;
  }
  if (clicks == 0 || others == 0) return kNone;
  return static_cast<double>(halves) / (2 * static_cast<double>(clicks) * static_cast<double>(others));
}

double log_loss(std::span<const double> log_odds, std::span<const std::uint8_t> labels) {
  double sum = 0;
  for (std::size_t i = 0; i < log_odds.size(); ++i) {
    const double wrong = labels[i] ? -log_odds[i] : log_odds[i];
    sum += std::max(0.0, wrong) + std::log1p(std::exp(-std::abs(wrong)));  // log(1 + e^wrong), which never overflows
  }
  return sum / static_cast<double>(log_odds.size());
}

}  // namespace flockstep::tasks
