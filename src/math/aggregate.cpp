#include "math/aggregate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "math/guard.h"
#include "math/normalized_mean.h"

namespace flockstep::math {
namespace {

bool has_what_is_needed(const Statistics& statistics, Need need) {
  if (need == Need::matrix) return statistics.has_matrix();
  return need == Need::nothing || !statistics.q.empty();
}

// Whether a worker that takes part sent NaN or infinity.
bool meets_non_finite(const Statistics& statistics) {
  for (std::size_t i = 0; i < statistics.q.size(); ++i)
    if (!std::isfinite(statistics.q[i]) && statistics.weights[i] != 0) return true;
  return false;
}

std::vector<double> fitted_memory(const Rule& rule, const std::vector<double>& memory,
                                  const std::vector<std::size_t>& living) {
  if (memory.empty() || rule.belonging != Belonging::worker) return resample(memory, rule.belonging, living.size());
  std::vector<double> kept;
  for (const std::size_t i : living) kept.push_back(memory[i]);
  return kept;
}

// What belongs to positions stays as it is until another number takes part: there and back again would blur it. Of what
// belongs to workers, that of those who were not there keeps its place; who never had any gets the mean of the others.
std::vector<double> memory_of_all(const Rule& rule, std::vector<double> before, std::vector<double> after,
                                  const std::vector<std::size_t>& living, std::size_t workers) {
  if (rule.belonging != Belonging::worker || living.size() == workers) return after;
  if (before.empty()) {
    const double sum = std::accumulate(after.begin(), after.end(), 0.0);
    before.assign(workers, sum / static_cast<double>(after.size()));
  }
  for (std::size_t k = 0; k < living.size(); ++k) before[living[k]] = after[k];
  return before;
}

// ||sum_i c_i g_i||^2 from row sums, where all gradients lie on one line (as single numbers do), so that
// K_ij = d_i d_j / sum d. Nothing where they do not.
std::optional<double> square_norm_on_a_line(const Statistics& present, const std::vector<double>& c) {
  const double square_of_sum = std::accumulate(present.d.begin(), present.d.end(), 0.0);
  if (!(square_of_sum > 0)) return std::nullopt;
  double along = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const double d = present.d[i];
    if (!(d * d >= (1 - 1e-4) * present.q[i] * square_of_sum)) return std::nullopt;
    along += c[i] * d;
  }
  return along * along / square_of_sum;
}

// Whether the weighted sum is shorter than a thousandth of its terms together: sums of products, which are good to six
// digits, cannot tell that from rounding. Without the matrix, whether it is known to be.
bool cancels(const Statistics& present, const std::vector<double>& c) {
  double lengths = 0;
  for (std::size_t i = 0; i < c.size(); ++i) lengths += std::abs(c[i]) * std::sqrt(present.q[i]);
  if (lengths == 0) return true;
  const std::optional<double> square =
      present.has_matrix() ? square_norm(present, c) : square_norm_on_a_line(present, c);
  return square && *square <= 1e-6 * lengths * lengths;
}

// Nothing also where directions cancel.
std::optional<RuleResult> result_of(const Rule& rule, const AggregateOptions& options, const Statistics& present,
                                    const std::vector<double>& memory) {
  std::optional<RuleResult> outcome = rule.apply(present, memory);
  if (!outcome) return std::nullopt;
  const bool matched = options.magnitude == Magnitude::matched;
  if (matched && rule.shares == Shares::of_gradients) {
    const std::vector<double> n = norms(present, options.eps);
    for (std::size_t i = 0; i < n.size(); ++i) outcome->c[i] /= n[i];
  }
  const bool on_directions = matched || rule.shares == Shares::of_directions;
  if (on_directions && cancels(present, outcome->c)) return std::nullopt;
  return outcome;
}

bool scales(const Rule& rule, Magnitude magnitude) {
  return magnitude != Magnitude::own && !(magnitude == Magnitude::mean_norm && rule.has_mean_norm);
}

// Of the gradients that are not zero; there is one. Also of those that count nothing: a rule may leave out all but the
// one that explodes.
double lower_median_norm(const Statistics& present, double eps) {
  std::vector<double> n;
  for (const double q : present.q)
    if (q > 0) n.push_back(std::sqrt(q) + eps);
  return lower_median(std::move(n));
}

// c_i = a_i / n_i -> (a_i / sum |a|) med(n) / n_i. Negative shares would else make the result as long as sum |a| is.
void match_norms(const Statistics& present, double eps, std::vector<double>& c) {
  const std::vector<double> n = norms(present, eps);
  double shares = 0;
  for (std::size_t i = 0; i < c.size(); ++i)
    if (present.q[i] > 0) shares += std::abs(c[i]) * n[i];  // a share of zeros would only make the result shorter
  const double factor = lower_median_norm(present, eps) / shares;
  for (double& value : c) value *= factor;
}

double target_norm(Magnitude magnitude, const Statistics& present) {
  if (magnitude == Magnitude::median_norm) return median(norms(present, 0));
  const double square = std::accumulate(present.d.begin(), present.d.end(), 0.0);
  return std::sqrt(square < 0 ? 0 : square) / static_cast<double>(present.workers());
}

// The plain mean, no longer than a result of this magnitude may be: where one worker explodes and directions cancel, it
// must not set the step.
std::vector<double> short_mean(const AggregateOptions& options, const Statistics& present) {
  std::vector<double> c(present.workers(), 1 / static_cast<double>(present.workers()));
  const double norm = target_norm(Magnitude::mean_norm, present);
  const double most = options.magnitude == Magnitude::own       ? 1
                      : options.magnitude == Magnitude::matched ? lower_median_norm(present, options.eps)
                                                                : target_norm(options.magnitude, present);
  if (norm > most)
    for (double& value : c) value *= most / norm;
  return c;
}

// Scales c, or says in `norm` what somebody else has to scale the result to.
void set_magnitude(const AggregateOptions& options, const Statistics& present, std::vector<double>& c,
                   std::optional<double>& norm) {
  if (options.magnitude == Magnitude::matched) return match_norms(present, options.eps, c);
  const double target = target_norm(options.magnitude, present);
  if (!std::isfinite(target)) return;
  if (!present.has_matrix()) {
    norm = target;
    return;
  }
  double magnitudes = 0;
  for (std::size_t i = 0; i < c.size(); ++i)
    for (std::size_t j = 0; j < c.size(); ++j) magnitudes += std::abs(c[i] * c[j] * present.at(i, j));
  const double square = square_norm(present, c);
  // The sums of products are good to six digits: what is left below them is known better by who has the result.
  if (!(square > 1e-6 * magnitudes)) {
    norm = target;
    return;
  }
  for (double& value : c) value *= target / std::sqrt(square);
}

}  // namespace

std::string_view to_string(Event event) {
  switch (event) {
    case Event::none: return "none";
    case Event::non_finite: return "non_finite";
    case Event::all_zero: return "all_zero";
    case Event::unsafe: return "unsafe";
  }
  return "";
}

Need needed(const Rule& rule, const AggregateOptions& options) {
  const bool looks = scales(rule, options.magnitude) || options.non_finite == NonFinite::exclude;
  return looks ? std::max(rule.need, Need::row_sums) : rule.need;
}

std::vector<bool> attending_workers(const std::vector<double>& weights) {
  std::vector<bool> attending;
  for (const double weight : weights) attending.push_back(weight != 0);
  const bool nobody = std::ranges::find(attending, true) == attending.end();
  return nobody ? std::vector<bool>(weights.size(), true) : attending;
}

std::vector<std::size_t> living_workers(const Statistics& statistics) {
  const std::vector<bool> attending = attending_workers(statistics.weights);
  std::vector<std::size_t> living;
  for (std::size_t i = 0; i < statistics.workers(); ++i)
    if (attending[i] && (statistics.q.empty() || std::isfinite(statistics.q[i]))) living.push_back(i);
  return living;
}

Decision decide(const Rule& rule, const AggregateOptions& options, const Statistics& statistics,
                const std::vector<double>& memory) {
  base::check(rule.shares != Shares::none || options.magnitude != Magnitude::matched, "shares that can be matched");
  base::check(has_what_is_needed(statistics, needed(rule, options)), "the statistics that this rule needs");
  const std::size_t P = statistics.workers();
  base::check(memory.empty() || memory.size() == P || rule.belonging == Belonging::position,
              "a memory for as many workers as there are");
  const bool looked = !statistics.q.empty();
  const std::vector<std::size_t> living = living_workers(statistics);
  Decision decision;
  decision.c.resize(P);
  decision.memory = memory;

  if (meets_non_finite(statistics)) {
    decision.event = Event::non_finite;
    if (options.non_finite == NonFinite::propagate || living.empty()) {
      decision.propagates = true;
      decision.c.assign(P, std::numeric_limits<double>::quiet_NaN());
      return decision;
    }
  }
  const auto raise = [&](Event event) { decision.event = decision.event == Event::none ? event : decision.event; };
  if (living.empty()) {  // nobody had samples, and no gradient is a number
    raise(Event::unsafe);
    return decision;
  }
  const Statistics present = living.size() == P ? statistics : statistics.of(living);
  if (looked && std::all_of(present.q.begin(), present.q.end(), [](double square) { return square == 0; })) {
    raise(Event::all_zero);
    return decision;
  }

  std::optional<RuleResult> outcome = result_of(rule, options, present, fitted_memory(rule, memory, living));
  bool is_mean = false;
  if (!outcome) {
    raise(Event::unsafe);
    if (!looked) return decision;
    outcome = normalized_mean(options.eps).apply(present, {});
    is_mean = cancels(present, outcome->c);
    if (is_mean) outcome->c = short_mean(options, present);
  } else if (decision.event == Event::none) {
    decision.memory = memory_of_all(rule, memory, std::move(outcome->memory), living, P);
  }

  if (!is_mean && scales(rule, options.magnitude)) set_magnitude(options, present, outcome->c, decision.norm);
  // A gradient of zeros adds nothing whatever it is multiplied by, and what a rule divides by its norm is no figure.
  for (std::size_t k = 0; k < living.size(); ++k)
    if (!looked || present.q[k] > 0) decision.c[living[k]] = outcome->c[k];
  return decision;
}

}  // namespace flockstep::math
