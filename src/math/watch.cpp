#include "math/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "math/words.h"

namespace flockstep::math {
namespace {

// Those that had samples and sent something that has a direction.
std::vector<std::size_t> with_direction(const Statistics& statistics) {
  std::vector<std::size_t> living;
  for (std::size_t i = 0; i < statistics.workers(); ++i)
    if (statistics.weights[i] > 0 && std::isfinite(statistics.q[i]) && statistics.q[i] > 0) living.push_back(i);
  return living;
}

bool includes(const Finding& large, const Finding& small) {
  return std::includes(large.workers.begin(), large.workers.end(), small.workers.begin(), small.workers.end());
}

double cosine(const Statistics& statistics, std::size_t i, std::size_t j) {
  return statistics.at(i, j) / (std::sqrt(statistics.q[i]) * std::sqrt(statistics.q[j]));
}

double log_norm(const Statistics& statistics, std::size_t i) { return std::log(statistics.q[i]) / 2; }

// What the others stand for: the second largest, as healthy ones with data of their own lie far apart and two that are
// broken must not hide each other; of fewer than three, the middle.
double upper(std::vector<double> levels) {
  if (levels.size() < 3) return median(std::move(levels));
  std::nth_element(levels.begin(), levels.begin() + 1, levels.end(), std::greater<>());
  return levels[1];
}

bool are_equal(const Statistics& statistics, std::size_t i, std::size_t j) {
  const double x = std::sqrt(statistics.q[i]), y = std::sqrt(statistics.q[j]);
  return cosine(statistics, i, j) >= Watch::kSameCosine && std::min(x, y) >= Watch::kSameCosine * std::max(x, y);
}

}  // namespace

std::string_view to_string(FindingKind kind) {
  switch (kind) {
    case FindingKind::same_gradient: return "same_gradient";
    case FindingKind::against: return "against";
    case FindingKind::zeros: return "zeros";
    case FindingKind::exploding: return "exploding";
    case FindingKind::non_finite: return "non_finite";
    case FindingKind::clipped: return "clipped";
    case FindingKind::left_out: return "left_out";
    case FindingKind::stuck: return "stuck";
  }
  return "";
}

void Watch::Run::count(bool holds, std::int64_t step) {
  if (!holds) length = 0;
  if (holds && length++ == 0) first_step = step;
}

void Watch::Window::add(std::int64_t step, double value) {
  if (full()) values_.pop_front();
  values_.push_back({step, value});
}

double Watch::Window::mean() const {
  double sum = 0;
  for (const Value& value : values_) sum += value.value;
  return sum / static_cast<double>(values_.size());
}

double Watch::Window::standard_error() const {
  const double center = mean(), count = static_cast<double>(values_.size());
  double squares = 0;
  for (const Value& value : values_) squares += (value.value - center) * (value.value - center);
  return std::sqrt(squares / (count * (count - 1)));
}

std::vector<Finding> Watch::observe(std::int64_t step, const Statistics& statistics, const std::vector<bool>& clipped,
                                    const std::vector<bool>& left_out, const std::vector<bool>& stuck) {
  base::check(step > last_step_, "steps come in order");
  last_step_ = step;
  if (statistics.q.empty()) return {};
  for (const auto* told : {&clipped, &left_out, &stuck})
    base::check(told->empty() || told->size() == statistics.workers(), "a word about every worker");
  if (workers_.size() != statistics.workers()) {
    workers_.assign(statistics.workers(), {});
    equal_.assign(packed_size(statistics.workers()), {});
    all_zeros_ = all_broken_ = {};
  }
  const std::vector<std::size_t> living = with_direction(statistics);
  std::vector<std::size_t> learning = living;  // what is left of a gradient when its data are fitted is rounding
  std::erase_if(learning, [&](std::size_t i) { return log_norm(statistics, i) < workers_[i].own + std::log(kFitted); });
  watch_all(step, statistics);
  watch_numbers(step, statistics, learning, left_out);
  if (!stuck.empty()) watch_stuck(statistics, stuck);
  if (!clipped.empty()) watch_guard(step, statistics, clipped);
  watch_norms(step, statistics, living);
  if (statistics.has_matrix()) {
    watch_directions(step, statistics, learning);
    watch_equality(step, statistics, living);
  }
  return std::exchange(raised_, {});
}

void Watch::watch_numbers(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& learning,
                          const std::vector<bool>& left_out) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    const int rank = static_cast<int>(i);
    const double square = statistics.q[i];
    const bool has_samples = statistics.weights[i] > 0;
    const bool is_left_out = has_samples && !left_out.empty() && left_out[i];
    const bool is_broken = is_left_out || (has_samples && !std::isfinite(square));

    if (is_broken && all_broken_.length == 0) {
      worker.non_finite.count(true, step);
      const std::int64_t steps = worker.non_finite.length;
      raise(FindingKind::non_finite, {rank}, worker.non_finite.first_step, static_cast<double>(steps),
            fmt::format("worker {} sent numbers that are not finite in {} step{}", i, steps, steps == 1 ? "" : "s"));
    }

    if (has_samples) worker.broken.count(is_broken, step);
    if (is_left_out) {
      const std::int64_t steps = worker.broken.length;
      raise(FindingKind::left_out, {rank}, worker.broken.first_step, static_cast<double>(steps),
            fmt::format("worker {} has sent numbers that are not finite for {} step{} in a row and is left out until "
                        "it sends finite ones",
                        i, steps, steps == 1 ? "" : "s"));
    }

    // When no worker sends more than zeros or rounding none of them is to blame, and nothing is learnt of this one.
    const bool sends_zeros = has_samples && !is_left_out && square == 0;
    if (!sends_zeros || !learning.empty()) worker.zeros.count(sends_zeros, step);
    if (sends_zeros && !learning.empty() && worker.zeros.length >= kSteps) {
      const std::int64_t steps = worker.zeros.length;
      raise(FindingKind::zeros, {rank}, worker.zeros.first_step, static_cast<double>(steps),
            fmt::format("worker {} sends zeros ({} steps in a row)", i, steps));
    }
  }
}

void Watch::watch_stuck(const Statistics& statistics, const std::vector<bool>& stuck) {
  std::vector<int> group;
  std::int64_t steps = std::numeric_limits<std::int64_t>::max(), first_step = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!stuck[i]) continue;
    group.push_back(static_cast<int>(i));
    const Run& run = workers_[i].broken;
    if (run.length < steps) steps = run.length, first_step = run.first_step;
  }
  if (group.empty()) return;
  const auto present = std::ranges::count_if(statistics.weights, [](double weight) { return weight > 0; });
  raise(FindingKind::stuck, group, first_step, static_cast<double>(steps),
        fmt::format("{} ({} of {}) sent numbers that are not finite for {} steps in a row. Fewer than half of the "
                    "workers are ever left out, so with non_finite = propagate no worker has taken these steps",
                    named(group), group.size(), present, steps));
}

// What all workers have in common is no worker's fault, such as an overflow under a gradient scaler; but training that
// stands still for long is a finding.
void Watch::watch_all(std::int64_t step, const Statistics& statistics) {
  std::vector<int> present;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (statistics.weights[i] > 0) present.push_back(static_cast<int>(i));
  if (present.empty()) return;
  const auto q = [&](int worker) { return statistics.q[static_cast<std::size_t>(worker)]; };
  all_zeros_.count(std::ranges::all_of(present, [&](int worker) { return q(worker) == 0; }), step);
  all_broken_.count(std::ranges::none_of(present, [&](int worker) { return std::isfinite(q(worker)); }), step);
  const auto raise_run = [&](FindingKind kind, const Run& run, std::string_view one, std::string_view all) {
    if (run.length < kSteps) return;
    const std::string subject = present.size() == 1 ? fmt::format("worker {} {}", present.front(), one)
                                                    : fmt::format("all {} workers {}", present.size(), all);
    raise(kind, present, run.first_step, static_cast<double>(run.length),
          fmt::format("{} ({} steps in a row): the model is not being trained", subject, run.length));
  };
  raise_run(FindingKind::zeros, all_zeros_, "sends zeros", "send zeros");
  raise_run(FindingKind::stuck, all_broken_, "sends numbers that are not finite", "send numbers that are not finite");
}

void Watch::watch_guard(std::int64_t step, const Statistics& statistics, const std::vector<bool>& clipped) {
  std::ptrdiff_t present = 0, met = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    present += statistics.weights[i] > 0;
    met += statistics.weights[i] > 0 && clipped[i];
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (statistics.weights[i] == 0) continue;
    Window& window = workers_[i].clipped;
    const bool counts = clipped[i] && 2 * met <= present;
    window.add(step, counts ? 1 : 0);
    if (!counts || !window.full() || window.mean() < kClippedShare) continue;
    const double steps = std::round(window.mean() * static_cast<double>(kClippedSteps));
    raise(FindingKind::clipped, {static_cast<int>(i)}, window.first_step(), steps,
          fmt::format("worker {}'s gradient met the guard in {} of the last {} steps: it is often several times as "
                      "large as the {}",
                      i, steps, kClippedSteps, workers_.size() == 2 ? "other one's" : "median worker's"));
  }
}

// By logarithms, so that a few spikes do not make a mean.
void Watch::watch_norms(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living) {
  for (const std::size_t i : living) workers_[i].log_norms.add(step, log_norm(statistics, i));
  for (const std::size_t i : living) {
    Worker& worker = workers_[i];
    std::vector<double> now, means;  // of the others: with itself, of two workers, it would make half of the median
    for (const std::size_t j : living) {
      if (j == i) continue;
      now.push_back(log_norm(statistics, j));
      if (workers_[j].log_norms.full()) means.push_back(workers_[j].log_norms.mean());
    }
    if (now.empty()) continue;
    worker.log_ratios.add(step, log_norm(statistics, i) - median(std::move(now)));
    if (!worker.log_norms.full() || means.empty()) continue;
    worker.others = std::max(worker.others, upper(std::move(means)));
    if (worker.levels.full() && !worker.exploding) worker.own = std::max(worker.own, worker.levels.oldest());
    worker.levels.add(step, worker.log_norms.mean());
    if (worker.log_ratios.full()) raise_exploding(i);
  }
}

// Where the others have fitted their data and this worker has not, it is large beside them and not broken.
void Watch::raise_exploding(std::size_t i) {
  Worker& worker = workers_[i];
  if (worker.log_norms.mean() - std::max(worker.others, worker.own) < std::log(kExplodingRatio)) return;
  const double mean = worker.log_ratios.mean(), ratio = std::exp(mean);
  if (ratio < kExplodingRatio || mean < kErrors * worker.log_ratios.standard_error()) return;
  worker.exploding = true;
  raise(FindingKind::exploding, {static_cast<int>(i)}, worker.log_ratios.first_step(), ratio,
        fmt::format("worker {}'s gradient is {} the {} (over {} steps)", i, times(ratio),
                    workers_.size() == 2 ? "other one's" : "median", kSteps));
}

// By unit directions, so that a huge worker cannot define the flock.
void Watch::watch_directions(std::int64_t step, const Statistics& statistics,
                             const std::vector<std::size_t>& learning) {
  if (learning.size() < (workers_.size() == 2 ? 2 : 3)) return;
  std::vector<double> rows;  // of each, the sum of its cosines with the others
  for (const std::size_t i : learning) {
    rows.push_back(0);
    for (const std::size_t j : learning)
      if (j != i) rows.back() += cosine(statistics, i, j);
  }
  const double all = std::accumulate(rows.begin(), rows.end(), 0.0), others = static_cast<double>(learning.size() - 1);
  for (std::size_t k = 0; k < learning.size(); ++k) {
    Worker& worker = workers_[learning[k]];
    worker.cosines.add(step, rows[k] / others);
    if (others > 1) worker.agreement.add(step, (all - 2 * rows[k]) / (others * (others - 1)));
  }
  if (workers_.size() == 2) return raise_opposed(workers_.front().cosines);
  for (const std::size_t i : learning) raise_against(i);
}

// Of two, nobody can say which is wrong.
void Watch::raise_opposed(const Window& cosines) {
  if (!cosines.full()) return;
  const double mean = cosines.mean();
  if (mean > kOpposed || mean > -kErrors * cosines.standard_error()) return;
  raise(FindingKind::against, {0, 1}, cosines.first_step(), mean,
        fmt::format(
            "workers 0 and 1 point against each other (mean cosine {:.2f} over {} steps): has one the wrong sign?",
            mean, kAgainstSteps));
}

// Workers with different data, or near an optimum, have negative cosines with the rest and are not broken: a wrong sign
// shows against a direction that the others share.
void Watch::raise_against(std::size_t worker) {
  const Window& cosines = workers_[worker].cosines;
  if (!cosines.full()) return;
  const double mean = cosines.mean(), agreement = workers_[worker].agreement.mean();
  if (agreement < kAgreement || mean > kAgainstPart * agreement) return;
  // Cosines of a model of few numbers are far from zero by chance.
  if (mean > -kErrors * cosines.standard_error()) return;
  raise(FindingKind::against, {static_cast<int>(worker)}, cosines.first_step(), mean,
        fmt::format("worker {} points against the others (mean cosine {:.2f} over {} steps)", worker, mean,
                    kAgainstSteps));
}

void Watch::watch_equality(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living) {
  std::vector<bool> lives(workers_.size());
  for (const std::size_t i : living) lives[i] = true;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      equal_[packed_index(i, j)].count(lives[i] && lives[j] && are_equal(statistics, i, j), step);
  raise_groups(statistics);
}

void Watch::raise_groups(const Statistics& statistics) {
  std::vector<bool> grouped(workers_.size());
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (grouped[i]) continue;
    std::vector<int> group = {static_cast<int>(i)};
    std::int64_t steps = std::numeric_limits<std::int64_t>::max(), first_step = 0;
    double least = 1;
    for (std::size_t j = i + 1; j < workers_.size(); ++j) {
      const Run& run = equal_[packed_index(i, j)];
      if (run.length < kSteps) continue;
      group.push_back(static_cast<int>(j));
      grouped[j] = true;
      least = std::min(least, cosine(statistics, i, j));
      if (run.length < steps) steps = run.length, first_step = run.first_step;
    }
    if (group.size() < 2) continue;
    raise(FindingKind::same_gradient, group, first_step, least,
          fmt::format("{} sent the same gradient for {} steps: are they reading the same data?", named(group), steps));
  }
}

void Watch::raise(FindingKind kind, std::vector<int> workers, std::int64_t first_step, double evidence,
                  std::string sentence) {
  Finding finding{kind, std::move(workers), first_step, last_step_, evidence, std::move(sentence)};
  // A group of equal workers takes in the smaller ones known before; what is left of a larger one was said already.
  const auto is_part = [&](const Finding& known) { return known.kind == finding.kind && includes(finding, known); };
  const auto is_whole = [&](const Finding& known) {
    return finding.kind == FindingKind::same_gradient && known.kind == finding.kind &&
           known.workers.size() > finding.workers.size() && includes(known, finding);
  };
  if (std::any_of(findings_.begin(), findings_.end(), is_whole)) return;
  const auto known = std::find_if(findings_.begin(), findings_.end(), is_part);
  if (known == findings_.end()) {
    raised_.push_back(finding);
    findings_.push_back(std::move(finding));
    return;
  }
  const bool grew = known->workers.size() < finding.workers.size();
  finding.first_step = std::min(finding.first_step, known->first_step);
  *known = finding;
  findings_.erase(std::remove_if(known + 1, findings_.end(), is_part), findings_.end());
  if (grew) raised_.push_back(std::move(finding));
}

}  // namespace flockstep::math
