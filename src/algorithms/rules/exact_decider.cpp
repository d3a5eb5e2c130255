#include "algorithms/rules/exact_decider.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace flockstep::algorithms {
namespace {

using math::Decision;
using math::Event;
using math::Need;
using math::Statistics;

// What the norm of a weighted sum may be by rounding alone, where gradients cancel.
double rounding_of(const std::vector<double>& c, const Statistics& statistics) {
  double sum = 0;
  for (std::size_t i = 0; i < c.size(); ++i)
    if (c[i] != 0) sum += std::abs(c[i]) * std::sqrt(statistics.q[i]);
  return 1e-6 * sum;
}

}  // namespace

ExactDecider::ExactDecider(const RuleAndOptions& choice, std::size_t workers, std::vector<std::size_t> sections)
    : rule_(choice.rule),
      options_(choice.common),
      workers_(workers),
      sections_(std::move(sections)),
      need_(swept(rule_, options_, workers_, 0)),
      memory_(sections_.size()),
      runs_(workers_, options_.aggregate.patience) {}

void ExactDecider::begin_next() { need_ = swept(rule_, options_, workers_, ++steps_); }

void ExactDecider::remember(std::vector<std::vector<double>> memory) {
  base::check(memory.size() == memory_.size(), "a memory for every section");
  memory_ = std::move(memory);
}

void ExactDecider::count_on(const ExactDecider& other) {
  steps_ = other.steps_ - 1;
  begin_next();
  guards_ = other.guards_;
  report_ = other.report_;
  runs_.set(other.runs_.runs());
  is_suspicious_ = other.is_suspicious_;
}

std::optional<std::vector<double>> ExactDecider::blindly(const std::vector<double>& weights) const {
  return is_suspicious_ ? std::nullopt : unseen(weights);
}

std::optional<std::vector<double>> ExactDecider::unseen(const std::vector<double>& weights) const {
  if (math::needed(rule_, options_.aggregate) != Need::nothing) return std::nullopt;
  Decision decision = math::decide(rule_, options_.aggregate, Statistics::none(weights), {});
  return decision.event == Event::none ? std::optional(std::move(decision.c)) : std::nullopt;
}

void ExactDecider::take_blindly(const std::vector<double>& coefficients, const std::vector<double>& weights) {
  report_ = {Event::none, coefficients, Statistics::none(weights), {}, {}};
  begin_next();
}

ExactDecider::Attendance ExactDecider::attend(const std::vector<Statistics>& sections,
                                              const std::vector<double>& weights) {
  Attendance attendance{std::vector<bool>(workers_, true), math::attending_workers(weights), blindly(weights)};
  for (const Statistics& section : sections)
    for (std::size_t i = 0; i < workers_; ++i)
      attendance.finite[i] = attendance.finite[i] && std::isfinite(section.q[i]);
  for (std::size_t i = 0; i < workers_; ++i) attendance.living[i] = attendance.living[i] && attendance.finite[i];
  math::NonFiniteRuns::Verdict verdict = runs_.count(weights, attendance.finite);
  report_.left_out = std::move(verdict.left_out);
  report_.stuck = std::move(verdict.stuck);
  is_suspicious_ = std::ranges::find(attendance.finite, false) != attendance.finite.end();
  return attendance;
}

Decision ExactDecider::nothing_to_decide(const std::vector<double>& memory) const {
  Decision decision;
  decision.c.resize(workers_);
  decision.memory = memory;
  return decision;
}

// With this step's norms, so that nothing has to be known of earlier ones. A rule on directions needs none: whatever a
// worker's norm, its part is its share.
void ExactDecider::guard(const Statistics& section, Decision& decision) {
  if (options_.aggregate.guard == 0 || workers_ == 1 || decision.propagates) return;
  if (rule_.shares == math::Shares::of_directions || options_.aggregate.magnitude == math::Magnitude::matched) return;
  std::vector<double> parts(workers_);
  for (std::size_t i = 0; i < workers_; ++i)
    if (decision.c[i] != 0) parts[i] = std::abs(decision.c[i]) * std::sqrt(section.q[i]);
  const double reference = math::reference_of(parts);
  for (std::size_t i = 0; i < workers_; ++i) {
    const double factor = math::guard_factor(options_.aggregate.guard, reference, parts[i]);
    if (factor >= 1) continue;
    report_.clipped[i] = true;
    if (options_.aggregate.guard_clips) decision.c[i] *= factor;
  }
}

ExactOutcome ExactDecider::decide(std::vector<Statistics> sections, const std::vector<double>& weights,
                                  const Attendance& attendance, double scale) {
  std::optional<std::vector<double>> blind = attendance.blind;
  if (blind)
    for (double& value : *blind) value *= scale;
  if (!attendance.all_live())
    for (Statistics& section : sections)
      for (std::size_t i = 0; i < workers_; ++i) {
        if (!attendance.finite[i]) section.q[i] = std::numeric_limits<double>::quiet_NaN();
        if (report_.left_out[i]) section.weights[i] = 0;
      }
  report_.clipped.assign(workers_, false);
  std::vector<Decision> decisions;
  ExactOutcome outcome;
  for (std::size_t section = 0; section < sections.size(); ++section) {
    const bool is_empty = sections_[section] == 0;
    decisions.push_back(is_empty ? nothing_to_decide(memory_[section])
                                 : math::decide(rule_, options_.aggregate, sections[section], memory_[section]));
    Decision& decision = decisions.back();
    for (double& value : decision.c) value *= scale;
    if (decision.norm) *decision.norm *= scale;
    if (blind) decision.c = *blind;
    if (!is_empty) guard(sections[section], decision);
    outcome.coefficients.push_back(decision.c);
    outcome.norms.push_back(decision.norm ? runtime::Norm{*decision.norm, rounding_of(decision.c, sections[section])}
                                          : runtime::Norm{0, std::numeric_limits<double>::infinity()});
  }
  take_down(sections, decisions);
  report_.statistics.weights = weights;  // who is left out is there all the same
  begin_next();
  if (!blind) {
    // Everybody knows the same, so nobody has to be told of a result that is nothing or not a number.
    if (std::ranges::any_of(decisions, &Decision::propagates))
      outcome.everywhere = std::numeric_limits<float>::quiet_NaN();
    else if (std::ranges::all_of(decisions, [](const Decision& each) { return each.event == Event::all_zero; }))
      outcome.everywhere = 0.0f;
    if (outcome.everywhere) return outcome;
  }
  for (std::size_t section = 0; section < sections.size(); ++section) memory_[section] = decisions[section].memory;
  if (std::ranges::none_of(decisions, [](const Decision& decision) { return decision.norm.has_value(); }))
    outcome.norms.clear();
  return outcome;
}

// Gram matrices add up over sections, so the whole gradient's is known whatever was weighted as one.
void ExactDecider::take_down(const std::vector<Statistics>& sections, const std::vector<Decision>& decisions) {
  report_.event = Event::none;
  report_.coefficients.assign(workers_, 0.0);
  report_.statistics = sections[0];
  bool fired[4] = {};
  const std::size_t total = std::accumulate(sections_.begin(), sections_.end(), std::size_t{0});
  for (std::size_t section = 0; section < sections.size(); ++section) {
    const double share = total == 0 ? 1.0 / static_cast<double>(sections.size())
                                    : static_cast<double>(sections_[section]) / static_cast<double>(total);
    for (std::size_t i = 0; i < workers_; ++i) report_.coefficients[i] += share * decisions[section].c[i];
    const Event event = decisions[section].event;
    fired[static_cast<std::size_t>(event)] = true;
    if (event != Event::none && (report_.event == Event::none || event == Event::non_finite)) report_.event = event;
    if (section > 0) report_.statistics += sections[section];
  }
  guards_.non_finite += fired[static_cast<std::size_t>(Event::non_finite)];
  guards_.all_zero += fired[static_cast<std::size_t>(Event::all_zero)];
  guards_.unsafe += fired[static_cast<std::size_t>(Event::unsafe)];
  guards_.clipped += report_.any_clipped();
}

void ExactDecider::save(base::Archive& archive) const {
  archive.put_value("rule steps", steps_);
  archive.put_value("rule guards", guards_);
  archive.put_value("rule workers", static_cast<std::uint64_t>(workers_));
  archive.put("rule non-finite runs", std::span(runs_.runs()));
  archive.put_value("rule sections", static_cast<std::uint64_t>(memory_.size()));
  for (std::size_t section = 0; section < memory_.size(); ++section)
    archive.put(fmt::format("rule memory {}", section), std::span<const double>(memory_[section]));
}

std::string ExactDecider::restore(const base::Archive& archive) {
  steps_ = archive.get_value<std::int64_t>("rule steps") - 1;
  begin_next();
  guards_ = archive.get_value<GuardCounts>("rule guards");
  const auto workers = archive.get_value<std::uint64_t>("rule workers"),
             sections = archive.get_value<std::uint64_t>("rule sections");
  if (workers == workers_) {
    std::vector<std::int64_t> runs(workers_);
    archive.get("rule non-finite runs", std::span(runs));
    is_suspicious_ = std::ranges::any_of(runs, [](std::int64_t run) { return run > 0; });
    runs_.set(std::move(runs));
  }
  if (sections != memory_.size())
    throw Error(ErrorCode::bad_file, fmt::format("the checkpoint has memory for {} sections where this run has {}",
                                                 sections, memory_.size()));
  bool had_memory = false;
  for (std::size_t section = 0; section < memory_.size(); ++section) {
    memory_[section] = archive.get_vector<double>(fmt::format("rule memory {}", section));
    had_memory = had_memory || !memory_[section].empty();
    if (workers != workers_) memory_[section] = math::resample(memory_[section], rule_.belonging, workers_);
  }
  if (workers == workers_ || !had_memory) return "";
  return rule_.belonging == math::Belonging::position ? fmt::format("the sorted momentum of {} was re-sampled for {}",
                                                                    base::counted(workers, "worker"), workers_)
                                                      : fmt::format("the memory of {} does not fit {}: it starts anew",
                                                                    base::counted(workers, "worker"), workers_);
}

}  // namespace flockstep::algorithms
