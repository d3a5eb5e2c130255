#include "math/sketched.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace flockstep::math {
namespace {

constexpr double kKept = 0.9;         // of a smoothed norm or a reference, from one step to the next
constexpr double kMostGrowth = 3;     // of a norm over the smoothed ones, beyond which it is taken for an accident
constexpr std::size_t kHeadRows = 3;  // of a state, before the sections
constexpr std::size_t kRowsEach = 3;  // of a section

double dot(std::span<const double> x, std::span<const double> y) {
  double sums[4] = {};  // so that additions need not wait for each other
  std::size_t k = 0;
  for (; k + 4 <= x.size(); k += 4)
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += x[k + lane] * y[k + lane];
  for (; k < x.size(); ++k) sums[0] += x[k] * y[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The sketches as directions of these lengths, one for each worker: zeros where the length is or is not finite, and
// where a sketch has no direction: zeros, or sums of floats that overflowed.
std::vector<std::vector<double>> directions(const std::vector<std::span<const float>>& sketches,
                                            const std::vector<double>& lengths) {
  std::vector<std::vector<double>> result;
  for (std::size_t i = 0; i < sketches.size(); ++i) {
    auto& direction = result.emplace_back(sketches[i].size());
    if (!(lengths[i] > 0) || !std::isfinite(lengths[i])) continue;
    if (!std::ranges::all_of(sketches[i], [](float value) { return std::isfinite(value); })) continue;
    double largest = 0;  // squares must not overflow
    for (const float value : sketches[i]) largest = std::max(largest, std::abs(static_cast<double>(value)));
    if (largest == 0) continue;
    for (std::size_t k = 0; k < direction.size(); ++k) direction[k] = sketches[i][k] / largest;
    const double scale = lengths[i] / std::sqrt(dot(direction, direction));
    for (double& value : direction) value *= scale;
  }
  return result;
}

std::vector<double> sum_of(const std::vector<std::vector<double>>& rows, const std::vector<double>& factors) {
  std::vector<double> sum(rows.front().size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = 0; factors[i] != 0 && k < sum.size(); ++k) sum[k] += factors[i] * rows[i][k];
  return sum;
}

// Of gradients with these norms, whose directions these are; of those that are not finite nothing is known.
Statistics estimated(const std::vector<std::vector<double>>& directions, const std::vector<double>& norms,
                     std::vector<double> weights, bool matrix) {
  const std::size_t P = norms.size();
  if (!matrix) {
    const std::vector<double> sum = sum_of(directions, std::vector<double>(P, 1));
    std::vector<double> d(P), q(P);
    for (std::size_t i = 0; i < P; ++i) {
      d[i] = dot(directions[i], sum);
      q[i] = norms[i] * norms[i];
    }
    return Statistics::of_row_sums(std::move(d), std::move(q), std::move(weights));
  }
  std::vector<double> K(packed_size(P));
  for (std::size_t i = 0; i < P; ++i) {
    for (std::size_t j = 0; j < i; ++j)
      K[packed_index(i, j)] = std::isfinite(norms[i]) && std::isfinite(norms[j])
                                  ? dot(directions[i], directions[j])
                                  : std::numeric_limits<double>::quiet_NaN();
    K[packed_index(i, i)] = norms[i] * norms[i];
  }
  return Statistics::of_matrix(std::move(K), std::move(weights));
}

bool are_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

bool are_norms(std::span<const double> values) {
  return are_finite(values) && std::ranges::none_of(values, [](double value) { return value < 0; });
}

bool are_counts(std::span<const double> values) {
  constexpr double kMost = 1e15;  // whole numbers up to here are exact, and fit every type they become
  return std::ranges::all_of(values,
                             [](double value) { return value >= 0 && value <= kMost && value == std::floor(value); });
}

// Whether state() may have returned this, for whatever workers and sections.
bool is_state(const Sketched::State& state) {
  if (state.size() < kHeadRows || state[0].size() != 3 || !are_counts(state[0])) return false;
  const auto workers = static_cast<std::size_t>(state[0][1]), sections = static_cast<std::size_t>(state[0][2]);
  if (state.size() != kHeadRows + kRowsEach * sections || !are_norms(state[1])) return false;
  if (state[2].size() != workers || !are_counts(state[2])) return false;
  for (std::size_t row = kHeadRows; row < state.size(); row += kRowsEach) {
    const auto &c = state[row], &memory = state[row + 1], &smoothed = state[row + 2];
    if ((!c.empty() && c.size() != workers) || !are_finite(c)) return false;
    if (memory.size() > workers || !are_finite(memory)) return false;
    if ((!smoothed.empty() && smoothed.size() != workers) || !are_norms(smoothed)) return false;
  }
  return true;
}

}  // namespace

Sketched::Sketched(Rule rule, const AggregateOptions& options, SketchedShape shape)
    : options_(options), runs_(shape.workers, options.patience) {
  set_rule(std::move(rule), options);
  set_shape(std::move(shape));
}

void Sketched::set_rule(Rule rule, const AggregateOptions& options) {
  rule_ = std::move(rule);
  options_ = options;
  options_.non_finite = NonFinite::propagate;  // who is not finite never comes before the rule
  blind_ = needed(rule_, options_) == Need::nothing;
  runs_.set_patience(options.patience);
}

void Sketched::follow_with(Rule rule, const AggregateOptions& options, bool keeps_memory) {
  next_ = {std::move(rule), options, keeps_memory};
}

void Sketched::set_shape(SketchedShape shape) {
  base::check(shape.workers == runs_.runs().size(), "as many workers as before");
  const std::size_t sections = shape.section_per_bucket ? shape.buckets.size() : 1;
  if (shape.section_per_bucket || sections_.size() != sections) sections_.assign(sections, {});
  references_.assign(shape.buckets.size(), 0.0);
  shape_ = std::move(shape);
}

bool Sketched::knows_all() const {
  return blind_ || std::ranges::none_of(sections_, [](const Section& section) { return section.c.empty(); });
}

std::vector<double> Sketched::first_coefficients(std::span<const double> norms) {
  std::vector<double> c(norms.size());
  const std::vector<double> counted = positive(norms);
  if (counted.empty()) return c;
  const double median = lower_median(counted);
  for (std::size_t i = 0; i < c.size(); ++i)
    if (norms[i] > 0 && std::isfinite(norms[i])) c[i] = median / (static_cast<double>(counted.size()) * norms[i]);
  return c;
}

double Sketched::guard_factor(std::size_t bucket, double c, double norm) const {
  return options_.guard_clips ? math::guard_factor(options_.guard, references_[bucket], part(c, norm)) : 1;
}

std::vector<double> Sketched::norms_of(const SketchedStep& step, std::size_t section) const {
  std::vector<double> norms(shape_.workers);
  for (std::size_t i = 0; i < norms.size(); ++i)
    for (std::size_t bucket = 0; bucket < shape_.buckets.size(); ++bucket)
      if (section == kWhole || section == section_index(bucket)) norms[i] = std::hypot(norms[i], step.norms[i][bucket]);
  return norms;
}

std::vector<double> Sketched::used_coefficients(const SketchedStep& step, std::size_t bucket) const {
  if (blind_) return step.weights;
  if (knows(bucket)) return coefficients(bucket);
  std::vector<double> norms;
  for (std::size_t i = 0; i < shape_.workers; ++i) norms.push_back(step.weights[i] == 0 ? 0 : step.norms[i][bucket]);
  return first_coefficients(norms);
}

void Sketched::check(const SketchedStep& step) const {
  const std::size_t P = shape_.workers, sections = sections_.size();
  base::check(step.weights.size() == P && step.norms.size() == P, "a weight and norms from every worker");
  for (const auto& norms : step.norms) base::check(norms.size() == shape_.buckets.size(), "a norm of every bucket");
  base::check(step.sketches.empty() || step.sketches.size() == P, "sketches from every worker, or from none");
  for (const std::span<const float> sketch : step.sketches)
    base::check(sketch.size() == step.sketches.front().size() && (sections == 0 || sketch.size() % sections == 0),
                "a sketch of one length from every worker for every section");
}

SketchedOutcome Sketched::observe(const SketchedStep& step) {
  check(step);
  const std::size_t P = shape_.workers;
  std::vector<bool> finite(P, true), counted(P);
  for (std::size_t i = 0; i < P; ++i) {
    for (const double norm : step.norms[i]) finite[i] = finite[i] && std::isfinite(norm);
    counted[i] = step.weights[i] != 0 && finite[i];
  }
  SketchedOutcome outcome = told_by(step, counted);
  ++steps_;
  NonFiniteRuns::Verdict verdict = runs_.count(step.weights, finite);
  all_broken_ = verdict.all_broken;
  bool any_broken = false;
  for (std::size_t i = 0; i < P; ++i)
    any_broken = any_broken || (step.weights[i] != 0 && !finite[i] && !verdict.left_out[i]);
  outcome.left_out = std::move(verdict.left_out);
  outcome.stuck = std::move(verdict.stuck);
  if (next_) {
    set_rule(std::move(next_->rule), next_->options);
    for (Section& section : sections_) {
      section.c.clear();
      if (!next_->keeps_memory) section.memory.clear();
    }
    std::ranges::fill(references_, 0.0);  // they have the scale of the former coefficients
    next_.reset();
  }
  if (any_broken) {
    outcome.event = Event::non_finite;
    return outcome;
  }
  bool any_living = shape_.buckets.empty();
  for (std::size_t section = 0; section < sections_.size(); ++section)
    any_living = decide(step, section, counted, outcome) || any_living;
  if (!any_living) outcome.event = Event::all_zero;
  learn_references(step, counted);
  return outcome;
}

// What the step was like, by what was known before it.
SketchedOutcome Sketched::told_by(const SketchedStep& step, const std::vector<bool>& counted) const {
  SketchedOutcome outcome;
  const std::size_t P = shape_.workers, buckets = shape_.buckets.size(), sections = sections_.size();
  outcome.clipped.resize(P);
  outcome.coefficients.resize(P);
  double numbers = 0;
  for (const std::size_t size : shape_.buckets) numbers += static_cast<double>(size);
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const std::vector<double> used = used_coefficients(step, bucket);
    const double share =
        numbers == 0 ? 1 / static_cast<double>(buckets) : static_cast<double>(shape_.buckets[bucket]) / numbers;
    for (std::size_t i = 0; i < P; ++i) {
      outcome.coefficients[i] += share * used[i];
      if (!counted[i] || bucket >= step.known_buckets) continue;
      const double length = part(used[i], step.norms[i][bucket]);
      if (math::guard_factor(options_.guard, references_[bucket], length) < 1) outcome.clipped[i] = true;
    }
  }

  const std::vector<double> norms = norms_of(step, kWhole);
  if (step.sketches.empty() || sections == 0) {
    std::vector<double> q;
    for (const double norm : norms) q.push_back(norm * norm);
    outcome.statistics = {.K = {}, .d = {}, .q = std::move(q), .weights = step.weights};
    return outcome;
  }
  std::vector<std::vector<float>> whole;  // the sum of those of its sections
  std::vector<std::span<const float>> spans;
  const std::size_t length = step.sketches.front().size() / sections;
  for (const std::span<const float> sketch : step.sketches) {
    auto& sum = whole.emplace_back(sketch.begin(), sketch.begin() + static_cast<std::ptrdiff_t>(length));
    for (std::size_t k = length; k < sketch.size(); ++k) sum[k % length] += sketch[k];
  }
  for (const auto& sketch : whole) spans.emplace_back(sketch);
  outcome.statistics = estimated(directions(spans, norms), norms, step.weights, step.matrix);
  return outcome;
}

// Of the parts that the next step would have with this step's norms: coefficients may have changed their scale, as
// after the first step or with another rule. They fall slowly: a step in which all gradients were small is no measure
// of the next.
void Sketched::learn_references(const SketchedStep& step, const std::vector<bool>& counted) {
  for (std::size_t bucket = 0; bucket < shape_.buckets.size(); ++bucket) {
    std::vector<double> parts;
    for (std::size_t i = 0; i < shape_.workers; ++i)
      if (counted[i] && knows(bucket))
        parts.push_back(part(blind_ ? 1 : coefficients(bucket)[i], step.norms[i][bucket]));
    const double reference = reference_of(parts);
    if (bucket >= step.known_buckets) references_[bucket] = 0;
    if (reference > 0) references_[bucket] = std::max(reference, kKept * references_[bucket]);
  }
}

void Sketched::smooth(const std::vector<double>& norms, const std::vector<bool>& living,
                      std::vector<double>& smoothed) const {
  smoothed.resize(norms.size());
  std::vector<double> before, now;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (living[i]) now.push_back(norms[i]);
    if (living[i] && smoothed[i] > 0) before.push_back(smoothed[i]);
  }
  const double median = lower_median(before.empty() ? now : before);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (!living[i]) continue;
    const double most = kMostGrowth * std::max(smoothed[i], median), norm = std::min(norms[i], most);
    smoothed[i] = smoothed[i] > 0 ? kKept * smoothed[i] + (1 - kKept) * norm : norm;
  }
}

bool Sketched::decide(const SketchedStep& step, std::size_t index, const std::vector<bool>& counted,
                      SketchedOutcome& outcome) {
  Section& section = sections_[index];
  const std::vector<double> norms = norms_of(step, index);
  std::vector<bool> living(norms.size());
  std::vector<double> weights(norms.size());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    living[i] = counted[i] && norms[i] > 0;
    if (living[i]) weights[i] = step.weights[i];
  }
  if (std::ranges::find(living, true) == living.end()) return false;
  smooth(norms, living, section.smoothed);
  if (blind_ || step.sketches.empty()) return true;

  // With smoothed norms: those of a single step would let one step's accident define the next.
  const std::size_t length = step.sketches.front().size() / sections_.size();
  std::vector<double> lengths(norms.size());
  std::vector<std::span<const float>> sketches;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (living[i]) lengths[i] = section.smoothed[i];
    sketches.push_back(step.sketches[i].subspan(index * length, length));
  }
  const auto rows = directions(sketches, lengths);
  const bool matrix = needed(rule_, options_) == Need::matrix;
  Decision decision =
      math::decide(rule_, options_, estimated(rows, lengths, std::move(weights), matrix), section.memory);
  if (decision.norm) {  // row sums do not tell the result's, but sketches do
    const std::vector<double> result = sum_of(rows, decision.c);
    const double norm = std::sqrt(dot(result, result));
    if (norm > 0)
      for (double& value : decision.c) value *= *decision.norm / norm;
  }
  if (decision.event != Event::none) outcome.event = decision.event;
  section.c = std::move(decision.c);
  section.memory = std::move(decision.memory);
  return true;
}

Sketched::State Sketched::state() const {
  State state{{static_cast<double>(steps_), static_cast<double>(shape_.workers), static_cast<double>(sections_.size())},
              references_,
              {runs_.runs().begin(), runs_.runs().end()}};
  for (const Section& section : sections_) {
    state.push_back(section.c);
    state.push_back(section.memory);
    state.push_back(section.smoothed);
  }
  return state;
}

bool Sketched::set_state(const State& state) {
  if (!is_state(state)) return false;
  const auto workers = static_cast<std::size_t>(state[0][1]), sections = static_cast<std::size_t>(state[0][2]);
  steps_ = static_cast<std::int64_t>(state[0][0]);
  const bool same_workers = workers == shape_.workers;
  references_.assign(shape_.buckets.size(), 0.0);
  if (same_workers && state[1].size() == references_.size()) references_ = state[1];
  runs_.set(same_workers ? std::vector<std::int64_t>(state[2].begin(), state[2].end())
                         : std::vector<std::int64_t>(shape_.workers));
  for (Section& section : sections_) section = {};
  if (sections != sections_.size()) return true;
  for (std::size_t index = 0; index < sections; ++index) {
    const auto* const rows = &state[kHeadRows + kRowsEach * index];
    Section& section = sections_[index];
    if (rule_.belonging == Belonging::position)  // of as many as took part last, which need not be all
      section.memory = same_workers ? rows[1] : resample(rows[1], rule_.belonging, shape_.workers);
    else if (same_workers && rows[1].size() == workers)
      section.memory = rows[1];
    if (!same_workers) continue;
    section.c = rows[0];
    section.smoothed = rows[2];
  }
  return true;
}

}  // namespace flockstep::math
