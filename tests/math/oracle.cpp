#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace flockstep::math::oracle {
namespace {

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

double total(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result += value;
  return result;
}

double total_square(const Gradients& gradients) {
  double result = 0;
  for (const Vector& gradient : gradients) result += dot(gradient, gradient);
  return result;
}

Gradients directions(const Gradients& gradients, double eps) {
  Gradients result;
  for (const Vector& gradient : gradients) result.push_back(scaled(1 / (norm(gradient) + eps), gradient));
  return result;
}

Vector combined(const Gradients& gradients, const std::vector<double>& factors) {
  Vector result(gradients.front().size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    result = added(std::move(result), scaled(factors[i], gradients[i]));
  return result;
}

// x and y stand for so many workers as `left` and `right` say.
Vector adasum_pair(const Vector& x, const Vector& y, std::size_t left, std::size_t right, double small) {
  if (dot(x, x) <= small) return y;
  if (dot(y, y) <= small) return x;
  const double part = static_cast<double>(left) / static_cast<double>(left + right);
  return added(scaled(1 - part * dot(x, y) / dot(x, x), x), scaled(1 - (1 - part) * dot(x, y) / dot(y, y), y));
}

// The largest power of two below the number of workers splits the tree: neighbours pair up to there first.
Vector adasum_between(const Gradients& gradients, std::size_t first, std::size_t last, double small) {
  if (last - first == 1) return gradients[first];
  std::size_t half = 1;
  while (2 * half < last - first) half *= 2;
  return adasum_pair(adasum_between(gradients, first, first + half, small),
                     adasum_between(gradients, first + half, last, small), half, last - first - half, small);
}

}  // namespace

double dot(const Vector& x, const Vector& y) {
  double result = 0;
  for (std::size_t k = 0; k < x.size(); ++k) result += x[k] * y[k];
  return result;
}

double norm(const Vector& x) { return std::sqrt(dot(x, x)); }

Vector scaled(double factor, Vector x) {
  for (double& value : x) value *= factor;
  return x;
}

Vector added(Vector x, const Vector& y) {
  for (std::size_t k = 0; k < x.size(); ++k) x[k] += y[k];
  return x;
}

Vector sum(const Gradients& gradients) {
  Vector result(gradients.front().size());
  for (const Vector& gradient : gradients) result = added(std::move(result), gradient);
  return result;
}

Vector mean(const Gradients& gradients) { return scaled(1.0 / static_cast<double>(gradients.size()), sum(gradients)); }

Vector weighted_mean(const Gradients& gradients, const std::vector<double>& weights) {
  return scaled(1 / total(weights), combined(gradients, weights));
}

Vector normalized_mean(const Gradients& gradients, double eps) { return mean(directions(gradients, eps)); }

Vector geometric_median(const Gradients& points, int steps) {
  std::vector<double> squares;
  for (const Vector& point : points) squares.push_back(dot(point, point));
  const double nearest = 1e-3 * std::sqrt(middle(squares));
  Vector center = mean(points);
  for (int step = 0; step < steps; ++step) {
    std::vector<double> pulls;
    for (const Vector& point : points) pulls.push_back(1 / std::max(norm(added(scaled(-1, center), point)), nearest));
    center = weighted_mean(points, pulls);
  }
  return center;
}

Vector geometric_median_of_directions(const Gradients& gradients, int steps, double eps) {
  return geometric_median(directions(gradients, eps), steps);
}

Vector adasum(const Gradients& gradients) {
  return adasum_between(gradients, 0, gradients.size(), 1e-12 * total_square(gradients));
}

Vector AdaCons::step(const Gradients& gradients) {
  const Vector s = sum(gradients);
  const std::size_t P = gradients.size();
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < P; ++i)
    order.emplace_back(dot(gradients[i], s) / (norm(gradients[i]) + eps) / static_cast<double>(P), i);
  std::sort(order.begin(), order.end());
  const bool first = smoothed.empty();
  smoothed.resize(P);
  for (std::size_t k = 0; k < P; ++k)
    smoothed[k] = first ? order[k].first : beta * smoothed[k] + (1 - beta) * order[k].first;

  std::vector<double> share(P);
  for (std::size_t k = 0; k < P; ++k) {
    if (permutes_as_published)
      share[k] = smoothed[order[k].second];
    else
      share[order[k].second] = smoothed[k];
  }
  const double least = *std::min_element(share.begin(), share.end());
  for (double& value : share) {
    if (negatives == Negatives::clipped && value < 0) value = 0;
    if (negatives == Negatives::shifted && least < 0) value -= least;
  }
  if (negatives == Negatives::shifted && total(share) == 0) share.assign(P, 1);
  return weighted_mean(directions(gradients, eps), share);
}

Vector DirectionConsensus::step(const Gradients& gradients) {
  const Gradients units = directions(gradients, eps);
  const Vector flock = mean(units);
  const bool first = agreement.empty();
  agreement.resize(units.size());
  std::vector<double> share;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const double now = dot(units[i], flock);
    agreement[i] = first ? now : beta * agreement[i] + (1 - beta) * now;
    share.push_back(std::max(agreement[i], 0.0));
  }
  return weighted_mean(units, share);
}

double mean_norm(const Gradients& gradients) { return norm(mean(gradients)); }

double median_norm(const Gradients& gradients) {
  std::vector<double> all;
  for (const Vector& gradient : gradients) all.push_back(norm(gradient));
  return middle(all);
}

double lower_median_norm(const Gradients& gradients) {
  std::vector<double> all;
  for (const Vector& gradient : gradients) all.push_back(norm(gradient));
  std::sort(all.begin(), all.end());
  return all[(all.size() - 1) / 2];
}

}  // namespace flockstep::math::oracle
