#include "math/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace flockstep::math {
namespace {

// "workers 1, 3 and 5".
std::string named(const std::vector<int>& workers) {
  std::string names = fmt::format("workers {}", workers.front());
  for (std::size_t k = 1; k < workers.size(); ++k)
    names += fmt::format("{} {}", k + 1 == workers.size() ? " and" : ",", workers[k]);
  return names;
}

std::string as_factor(double ratio) {
  return ratio < 1e6 ? fmt::format("{:.0f}", ratio) : fmt::format("{:.0e}", ratio);
}

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
  }
  return "";
}

void Watch::Run::count(bool holds, std::int64_t step) {
  if (!holds) length = 0;
  if (holds && length++ == 0) first_step = step;
}

void Watch::Window::add(double value) { values[static_cast<std::size_t>(count++ % kSteps)] = value; }

double Watch::Window::mean() const {
  const auto filled = std::min(count, kSteps);
  return std::accumulate(values.begin(), values.begin() + filled, 0.0) / static_cast<double>(filled);
}

double Watch::Window::standard_error() const {
  double squares = 0;
  for (const double value : values) squares += (value - mean()) * (value - mean());
  return std::sqrt(squares / static_cast<double>(kSteps * (kSteps - 1)));
}

std::vector<Finding> Watch::observe(std::int64_t step, const Statistics& statistics) {
  base::check(step > last_step_, "steps come in order");
  last_step_ = step;
  if (statistics.q.empty()) return {};
  if (workers_.size() != statistics.workers()) {
    workers_.assign(statistics.workers(), {});
    equal_.assign(packed_size(statistics.workers()), {});
  }
  const std::vector<std::size_t> living = with_direction(statistics);
  watch_numbers(step, statistics, living);
  watch_norms(step, statistics, living);
  if (statistics.has_matrix()) {
    watch_directions(step, statistics, living);
    watch_equality(step, statistics, living);
  }
  return std::exchange(raised_, {});
}

void Watch::watch_numbers(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    const int rank = static_cast<int>(i);
    const double square = statistics.q[i];
    const bool has_samples = statistics.weights[i] > 0;

    if (has_samples && !std::isfinite(square)) {
      worker.non_finite.count(true, step);  // never reset: these need not be on end
      const std::int64_t steps = worker.non_finite.length;
      raise(FindingKind::non_finite, {rank}, worker.non_finite.first_step, static_cast<double>(steps),
            fmt::format("worker {} sent numbers that are not finite in {} step{}", i, steps, steps == 1 ? "" : "s"));
    }

    // When everybody sends zeros nobody is to blame, and nothing is learnt of this worker.
    const bool sends_zeros = has_samples && square == 0;
    if (!sends_zeros || !living.empty()) worker.zeros.count(sends_zeros, step);
    if (sends_zeros && worker.zeros.length >= kSteps) {
      const std::int64_t steps = worker.zeros.length;
      raise(FindingKind::zeros, {rank}, worker.zeros.first_step, static_cast<double>(steps),
            fmt::format("worker {} sends zeros ({} steps on end)", i, steps));
    }
  }
}

void Watch::watch_norms(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    std::vector<double> others;  // without itself: of two workers, it would make half of the median
    for (const std::size_t j : living)
      if (j != i) others.push_back(std::sqrt(statistics.q[j]));
    const bool compares = !others.empty() && std::find(living.begin(), living.end(), i) != living.end();
    const double ratio = compares ? std::sqrt(statistics.q[i]) / median(std::move(others)) : 0;
    worker.exploding.count(ratio >= kExplodingRatio, step);
    worker.log_ratios = worker.exploding.length == 0 ? 0 : worker.log_ratios + std::log(ratio);
    if (worker.exploding.length < kSteps) continue;
    const std::int64_t steps = worker.exploding.length;
    const double typical = std::exp(worker.log_ratios / static_cast<double>(steps));
    raise(FindingKind::exploding, {static_cast<int>(i)}, worker.exploding.first_step, typical,
          fmt::format("worker {}'s gradient is {} times the {} ({} steps on end)", i, as_factor(typical),
                      workers_.size() == 2 ? "other one's" : "median", steps));
  }
}

// By unit directions, so that a huge worker cannot define the flock.
void Watch::watch_directions(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living) {
  if (living.size() < 2) return;
  for (const std::size_t i : living) {
    double sum = 0;
    for (const std::size_t j : living)
      if (j != i) sum += cosine(statistics, i, j);
    workers_[i].cosines.add(sum / static_cast<double>(living.size() - 1));
  }
  for (const std::size_t i : living) {
    Worker& worker = workers_[i];
    const double mean = worker.cosines.mean();
    worker.against.count(mean < kAgainstCosine, step);
    if (worker.against.length < kSteps) continue;
    // Cosines of a model of few numbers are far from zero by chance: the mean must also stand out of their spread.
    if (mean > -kAgainstErrors * worker.cosines.standard_error()) continue;
    const std::string evidence = fmt::format("(mean cosine {:.2f} over {} steps)", mean, kSteps);
    if (workers_.size() == 2) {  // of two, nobody can say which is wrong
      if (i == 0)
        raise(FindingKind::against, {0, 1}, worker.against.first_step, mean,
              fmt::format("workers 0 and 1 point against each other {}", evidence));
    } else if (stands_out(i)) {
      raise(FindingKind::against, {static_cast<int>(i)}, worker.against.first_step, mean,
            fmt::format("worker {} points against the others {}", i, evidence));
    }
  }
}

// Near an optimum the workers' gradients cancel, and everybody has a negative cosine with the rest: that is no fault of
// one of them.
bool Watch::stands_out(std::size_t worker) const {
  std::vector<double> others;
  for (std::size_t j = 0; j < workers_.size(); ++j)
    if (j != worker && workers_[j].cosines.count > 0) others.push_back(workers_[j].cosines.mean());
  return !others.empty() && workers_[worker].cosines.mean() < median(std::move(others)) + kAgainstCosine;
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
