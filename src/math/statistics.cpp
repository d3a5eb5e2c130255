#include "math/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace flockstep::math {
namespace {

std::vector<double> selected(const std::vector<double>& from, std::span<const std::size_t> workers) {
  std::vector<double> result;
  if (from.empty()) return result;
  result.reserve(workers.size());
  for (const std::size_t i : workers) result.push_back(from[i]);
  return result;
}

}  // namespace

Statistics Statistics::none(std::vector<double> weights) {
  return {.K = {}, .d = {}, .q = {}, .weights = std::move(weights)};
}

Statistics Statistics::of_row_sums(std::vector<double> d, std::vector<double> q, std::vector<double> weights) {
  base::check(d.size() == weights.size() && q.size() == weights.size(), "one row sum, square and weight per worker");
  return {.K = {}, .d = std::move(d), .q = std::move(q), .weights = std::move(weights)};
}

Statistics Statistics::of_matrix(std::vector<double> K, std::vector<double> weights) {
  base::check(K.size() == packed_size(weights.size()), "a matrix with a row per weight");
  Statistics result{.K = std::move(K), .d = {}, .q = {}, .weights = std::move(weights)};
  const std::size_t P = result.workers();
  result.d.resize(P);
  result.q.resize(P);
  for (std::size_t i = 0; i < P; ++i) {
    for (std::size_t j = 0; j < P; ++j) result.d[i] += result.at(i, j);
    result.q[i] = result.at(i, i);
  }
  return result;
}

Statistics Statistics::of_sums(Need need, std::span<const double> sums, std::vector<double> weights) {
  const std::size_t workers = weights.size();
  if (need == Need::nothing) return none(std::move(weights));
  if (need == Need::matrix) return of_matrix({sums.begin(), sums.end()}, std::move(weights));
  const auto d = sums.first(workers), q = sums.last(workers);
  return of_row_sums({d.begin(), d.end()}, {q.begin(), q.end()}, std::move(weights));
}

Statistics Statistics::of(std::span<const std::size_t> workers) const {
  std::vector<double> w = selected(weights, workers);
  if (!has_matrix()) return {.K = {}, .d = selected(d, workers), .q = selected(q, workers), .weights = std::move(w)};
  std::vector<double> part(packed_size(workers.size()));
  for (std::size_t i = 0; i < workers.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) part[packed_index(i, j)] = at(workers[i], workers[j]);
  return of_matrix(std::move(part), std::move(w));
}

double square_norm(const Statistics& statistics, std::span<const double> c) {
  base::check(c.size() == statistics.workers() && statistics.has_matrix(), "a matrix and one coefficient per worker");
  double sum = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (c[i] == 0) continue;  // its row may be NaN
    for (std::size_t j = 0; j < c.size(); ++j)
      if (c[j] != 0) sum += c[i] * c[j] * statistics.at(i, j);
  }
  return sum < 0 ? 0 : sum;
}

std::vector<double> norms(const Statistics& statistics, double eps) {
  std::vector<double> n = statistics.q;
  for (double& value : n) value = std::sqrt(value) + eps;
  return n;
}

std::vector<double> cosines(const Statistics& statistics, double eps) {
  const std::vector<double> n = norms(statistics, eps);
  std::vector<double> U = statistics.K;
  for (std::size_t i = 0; i < n.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) U[packed_index(i, j)] /= n[i] * n[j];
  return U;
}

double median(std::vector<double> values) {
  base::check(!values.empty(), "a median of at least one value");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

Statistics& Statistics::operator+=(const Statistics& other) {
  const auto add = [](std::vector<double>& mine, const std::vector<double>& theirs) {
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += theirs[i];
  };
  add(K, other.K);
  add(d, other.d);
  add(q, other.q);
  return *this;
}

std::vector<double> agreement(const Statistics& statistics) {
  if (!statistics.has_matrix()) return {};
  const std::size_t workers = statistics.workers();
  const auto counts = [&](std::size_t i) {
    return statistics.weights[i] != 0 && std::isfinite(statistics.q[i]) && statistics.q[i] > 0;
  };
  std::vector<double> agreement(workers, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < workers; ++i) {
    if (!counts(i)) continue;
    double sum = 0, others = 0;
    for (std::size_t j = 0; j < workers; ++j)
      if (j != i && counts(j)) {
        sum += statistics.at(i, j) / std::sqrt(statistics.q[i]) / std::sqrt(statistics.q[j]);
        ++others;
      }
    if (others > 0) agreement[i] = sum / others;
  }
  return agreement;
}

}  // namespace flockstep::math
