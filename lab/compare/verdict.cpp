// Who won what, in words. What lies within the spread of the seeds is a tie, and called one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/compare.h"
#include "compare/readable.h"

namespace flockstep::compare {
namespace {

constexpr std::size_t kMostNames = 3;

// One of the things that algorithms may win.
struct Contest {
  std::function<Spread(const Row&)> figure;
  bool lower_is_better, by_median;

  double value(const Row& row) const { return by_median ? figure(row).median : figure(row).mean; }
  // What no number can be compared with comes last.
  double order(const Row& row) const {
    const double number = value(row);
    if (!std::isfinite(number)) return std::numeric_limits<double>::infinity();
    return lower_is_better ? number : -number;
  }
  bool as_good(const Row& best, const Row& other) const {
    const Spread ours = figure(best), theirs = figure(other);
    if (by_median) return theirs.median >= ours.min && theirs.median <= ours.max;
    return std::abs(ours.mean - theirs.mean) <= std::max(ours.deviation, theirs.deviation);
  }
};

std::string listed(const std::vector<std::string>& names) {
  if (names.size() == 1) return names[0];
  if (names.size() > kMostNames) return fmt::format("{} others", names.size());
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

struct Winner {
  const Row* row = nullptr;  // null when nobody has a number
  double value = 0;
  std::string tie;  // ", tied with sgp", or nothing
};

Winner winner_of(const CaseResult& result, const Contest& contest) {
  const Row& best = *std::ranges::min_element(result.rows, {}, [&](const Row& row) { return contest.order(row); });
  if (!std::isfinite(contest.value(best))) return {};
  std::vector<std::string> others;
  for (const Row& row : result.rows)
    if (&row != &best && contest.as_good(best, row)) others.push_back(row.algorithm);
  return {&best, contest.value(best), others.empty() ? "" : ", tied with " + listed(others)};
}

std::string quality_verdict(const Comparison& comparison, const CaseResult& result) {
  const bool by_median = statistic_of(result) == Statistic::median;
  const Winner best =
      winner_of(result, {[](const Row& row) { return row.result.quality; }, comparison.lower_is_better, by_median});
  if (!best.row) return fmt::format("Every algorithm diverged: no {} is a number", comparison.metric);
  const std::string spread =
      !by_median && best.row->result.runs > 1 ? " ± " + readable_deviation(best.row->result.quality.deviation) : "";
  const std::string_view within =
      best.row->result.runs > 1 && !best.tie.empty() ? " within the spread of the seeds" : "";
  return fmt::format("{} ended with the best {}{} ({}{}){}{}", best.row->algorithm, by_median ? "median " : "",
                     comparison.metric, readable(best.value), spread, best.tie, within);
}

std::string about_speed(const CaseResult& result) {
  const Winner most = winner_of(result, {[](const Row& row) { return row.result.samples_per_s; }, false, false});
  if (!most.row) return "";
  const std::string throughput =
      fmt::format("had the highest throughput ({:.0f} samples/s, waiting {:.0f}% of its time){}", most.value,
                  100 * most.row->result.wait_share.mean, most.tie);
  if (!result.target) return fmt::format("{} {}", most.row->algorithm, throughput);
  const Winner first = winner_of(result, {[](const Row& row) { return row.target->time_s; }, true, true});
  if (!first.row)
    return fmt::format("None reached {} with most seeds; {} {}", readable(*result.target), most.row->algorithm,
                       throughput);
  return fmt::format("{} was fastest to {} ({:.3g} s){}{}{}", first.row->algorithm, readable(*result.target),
                     first.value, first.tie, most.row == first.row ? " and " : "; " + most.row->algorithm + " ",
                     throughput);
}

}  // namespace

std::string verdict(const Comparison& comparison, const CaseResult& result) {
  if (result.rows.size() < 2) return "";
  std::vector<std::string> sentences;
  if (comparison.has_quality()) sentences.push_back(quality_verdict(comparison, result));
  if (std::string speed = about_speed(result); !speed.empty()) sentences.push_back(std::move(speed));
  return sentences.empty() ? "" : fmt::format("{}.", fmt::join(sentences, ". "));
}

}  // namespace flockstep::compare
