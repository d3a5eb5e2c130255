// What the tests of sketched consensus share: a flock that drives a Sketched step by step, as whoever sums gradients
// does, and the definition once more, written down on vectors.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "fixture.h"
#include "math/sketched.h"

namespace flockstep::math {

inline const std::vector<std::size_t> kBuckets = {7, 1, 12};
inline constexpr AggregateOptions kGuarded{.magnitude = Magnitude::matched, .guard = 3};

// A step as the caller sees it.
struct Taken {
  Gradients parts;  // f_ib c_i g_ib, of each worker
  Vector sum;
  SketchedOutcome outcome;
};

inline std::span<const double> bucket_of(const Vector& gradient, const std::vector<std::size_t>& sizes,
                                         std::size_t bucket) {
  std::size_t first = 0;
  for (std::size_t before = 0; before < bucket; ++before) first += sizes[before];
  return std::span(gradient).subspan(first, sizes[bucket]);
}

inline double norm_of(std::span<const double> values) { return oracle::norm({values.begin(), values.end()}); }

// The gradient itself, so that cosines are exact; where buckets are sections, that of each with zeros elsewhere.
inline std::vector<float> own_sketch(const Vector& gradient, const SketchedShape& shape) {
  if (!shape.section_per_bucket) return {gradient.begin(), gradient.end()};
  std::vector<float> sketch;
  std::size_t first = 0;
  for (const std::size_t size : shape.buckets) {
    for (std::size_t k = 0; k < gradient.size(); ++k)
      sketch.push_back(k >= first && k < first + size ? static_cast<float>(gradient[k]) : 0.0F);
    first += size;
  }
  return sketch;
}

struct Flock {
  Flock(Rule rule, const AggregateOptions& options, SketchedShape of)
      : shape(of), state(std::move(rule), options, std::move(of)) {}

  Taken step(const Gradients& gradients, std::vector<double> weights = {}) {
    if (weights.empty()) weights = ones(shape.workers);
    std::vector<std::vector<float>> sketches;
    SketchedStep told{.weights = std::move(weights), .norms = {}, .matrix = matrix};
    for (const Vector& gradient : gradients) {
      auto& norms = told.norms.emplace_back();
      for (std::size_t bucket = 0; bucket < shape.buckets.size(); ++bucket)
        norms.push_back(norm_of(bucket_of(gradient, shape.buckets, bucket)));
      sketches.push_back(own_sketch(gradient, shape));
    }
    told.sketches.assign(sketches.begin(), sketches.end());
    Taken taken{.parts = parts_of(gradients, told), .sum = {}, .outcome = {}};
    taken.sum = oracle::sum(taken.parts);
    taken.outcome = state.observe(told);
    return taken;
  }

  SketchedShape shape;
  Sketched state;
  bool matrix = true;

 private:
  Gradients parts_of(const Gradients& gradients, const SketchedStep& told) const {
    Gradients parts(gradients.size());
    for (std::size_t bucket = 0; bucket < shape.buckets.size(); ++bucket) {
      std::vector<double> norms;
      for (std::size_t i = 0; i < gradients.size(); ++i)
        norms.push_back(told.weights[i] == 0 ? 0 : told.norms[i][bucket]);
      const std::vector<double> c = state.is_blind()      ? told.weights
                                    : state.knows(bucket) ? state.coefficients(bucket)
                                                          : Sketched::first_coefficients(norms);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const bool left_out = state.leaves_out(i) && !std::isfinite(oracle::norm(gradients[i]));
        const double factor = c[i] * state.guard_factor(bucket, c[i], told.norms[i][bucket]);
        for (const double value : bucket_of(gradients[i], shape.buckets, bucket))
          parts[i].push_back(c[i] == 0 || told.weights[i] == 0 || left_out ? 0 : factor * value);
      }
    }
    return parts;
  }
};

// Numbers that a sketch of floats holds exactly.
inline Gradients rounded(Gradients gradients) {
  for (Vector& gradient : gradients)
    for (double& value : gradient) value = static_cast<float>(value);
  return gradients;
}

// The same in every step.
inline Gradients alike(std::size_t workers, std::size_t dimension = 20) {
  return rounded(nearly_alike(workers, dimension));
}

namespace oracle {

enum class Agreement { normalized_mean, adacons, direction_consensus };

// Sketched consensus with the gradients at hand: one section, matched magnitude, a guard of 3, a patience of 5.
struct Lagged {
  Agreement agreement;
  std::vector<std::size_t> buckets;
  std::vector<double> c = {}, m = {}, nb = {}, ref = {};
  std::vector<int> runs = {};
  std::vector<bool> clipped = {};

  static double lower_middle(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[(values.size() - 1) / 2];
  }
  static double ema(double weight, double old_value, double new_value) {
    return weight * old_value + (1 - weight) * new_value;
  }
  static bool is_finite(const Vector& x) {
    return std::all_of(x.begin(), x.end(), [](double value) { return std::isfinite(value); });
  }

  // The sum that everybody gets; its state afterwards is that for the next step.
  Vector step(const Gradients& g, const std::vector<double>& weights) {
    const std::size_t P = g.size();
    if (nb.empty()) nb.resize(P), runs.resize(P), ref.resize(buckets.size());
    clipped.assign(P, false);
    std::vector<std::size_t> present, living;
    std::size_t counted = 0, broken = 0;
    for (std::size_t i = 0; i < P; ++i) {
      counted += weights[i] != 0;
      broken += weights[i] != 0 && !is_finite(g[i]);
    }
    const bool is_a_fault = 2 * broken < counted;  // half or more: no worker's
    bool stops = false;
    for (std::size_t i = 0; i < P; ++i) {
      if (weights[i] == 0) continue;
      const bool finite = is_finite(g[i]);
      if (!finite && (!is_a_fault || runs[i] < 5)) stops = true;
      if (finite) runs[i] = 0;
      if (!finite && is_a_fault) ++runs[i];
      if (finite) present.push_back(i);
      if (finite && norm(g[i]) > 0) living.push_back(i);
    }
    Vector sum;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      std::vector<double> own;
      for (const std::size_t i : present)
        if (part_norm(g, i, b) > 0) own.push_back(part_norm(g, i, b));
      Vector part(buckets[b]);
      for (const std::size_t i : present) {
        const double n = part_norm(g, i, b);
        if (n == 0) continue;
        const double ci = c.empty() ? lower_middle(own) / (static_cast<double>(own.size()) * n) : c[i];
        const double length = std::abs(ci) * n, longest = 3 * ref[b];
        const bool cuts = P > 1 && ref[b] > 0 && length > longest;
        if (cuts) clipped[i] = true;
        const auto values = bucket_of(g[i], buckets, b);
        for (std::size_t k = 0; k < part.size(); ++k) part[k] += ci * values[k] * (cuts ? longest / length : 1);
      }
      sum.insert(sum.end(), part.begin(), part.end());
    }
    if (stops) return sum;
    if (!living.empty()) {
      smooth_norms(g, living);
      decide(g, living);
    }
    refer(g, present);
    return sum;
  }

 private:
  double part_norm(const Gradients& g, std::size_t i, std::size_t b) const {
    return norm_of(bucket_of(g[i], buckets, b));
  }

  // By the coefficients of the next step.
  void refer(const Gradients& g, const std::vector<std::size_t>& present) {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      std::vector<double> lengths;
      for (const std::size_t i : present)
        if (const double n = part_norm(g, i, b); !c.empty() && std::abs(c[i]) * n > 0)
          lengths.push_back(std::abs(c[i]) * n);
      if (lengths.size() < 2) continue;
      const double measure = lengths.size() == 2 ? std::max(lengths[0], lengths[1]) : lower_middle(lengths);
      ref[b] = std::max(measure, 0.9 * ref[b]);
    }
  }

  void smooth_norms(const Gradients& g, const std::vector<std::size_t>& living) {
    std::vector<double> known, now;
    for (const std::size_t i : living) {
      now.push_back(norm(g[i]));
      if (nb[i] > 0) known.push_back(nb[i]);
    }
    const double middle = lower_middle(known.empty() ? now : known);
    for (const std::size_t i : living) {
      const double capped = std::min(norm(g[i]), 3 * std::max(nb[i], middle));
      nb[i] = nb[i] > 0 ? ema(0.9, nb[i], capped) : capped;
    }
  }

  void decide(const Gradients& g, const std::vector<std::size_t>& living) {
    const auto L = static_cast<double>(living.size());
    const std::size_t P = g.size();
    const auto n = [&](std::size_t i) { return nb[i] + 1e-8; };
    std::vector<double> a(P), r(P), norms;
    for (const std::size_t i : living) {
      norms.push_back(n(i));
      for (const std::size_t j : living) {
        const double product = nb[i] * nb[j] * dot(g[i], g[j]) / norm(g[i]) / norm(g[j]);
        r[i] += product / n(i) / L / (agreement == Agreement::direction_consensus ? n(j) : 1);
      }
    }
    if (agreement == Agreement::normalized_mean) {
      for (const std::size_t i : living) a[i] = 1;
    } else if (agreement == Agreement::direction_consensus) {
      const bool first = m.empty();
      if (first) m.assign(P, std::accumulate(r.begin(), r.end(), 0.0) / L);
      for (const std::size_t i : living) {
        m[i] = first ? r[i] : ema(0.9, m[i], r[i]);
        a[i] = std::max(m[i], 0.0);
      }
    } else {  // of as many workers in each step
      std::vector<std::size_t> order = living;
      std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return r[i] < r[j]; });
      const bool first = m.empty();
      m.resize(order.size());
      for (std::size_t k = 0; k < order.size(); ++k)
        a[order[k]] = m[k] = first ? r[order[k]] : ema(0.99, m[k], r[order[k]]);
    }
    double total = 0;
    for (const std::size_t i : living) total += std::abs(a[i]);
    c.assign(P, 0);
    for (const std::size_t i : living) c[i] = a[i] / total * lower_middle(norms) / n(i);
  }
};

}  // namespace oracle
}  // namespace flockstep::math
