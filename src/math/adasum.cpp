#include "math/adasum.h"

#include <numeric>

namespace flockstep::math {
namespace {

// x'Ky: the inner product of two partial results, each given by its coefficients.
double product(const Statistics& statistics, const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; x[i] != 0 && j < y.size(); ++j) sum += x[i] * y[j] * statistics.at(i, j);
  return sum;
}

std::vector<double> merged(const Statistics& statistics, double nearly_zero, const std::vector<double>& x,
                           const std::vector<double>& y) {
  const double xx = product(statistics, x, x), yy = product(statistics, y, y), xy = product(statistics, x, y);
  if (xx <= nearly_zero) return y;
  if (yy <= nearly_zero) return x;
  std::vector<double> sum(x.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (1 - xy / (2 * xx)) * x[i] + (1 - xy / (2 * yy)) * y[i];
  return sum;
}

std::optional<Outcome> step(const Statistics& statistics) {
  const std::size_t P = statistics.workers();
  const double nearly_zero = 1e-12 * std::accumulate(statistics.q.begin(), statistics.q.end(), 0.0);  // of trace K
  std::vector<std::vector<double>> level(P, std::vector<double>(P));
  for (std::size_t i = 0; i < P; ++i) level[i][i] = 1;
  while (level.size() > 1) {
    std::vector<std::vector<double>> above;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2)
      above.push_back(merged(statistics, nearly_zero, level[i], level[i + 1]));
    if (level.size() % 2 == 1) above.push_back(std::move(level.back()));
    level = std::move(above);
  }
  return Outcome{.c = std::move(level.front()), .memory = {}};
}

}  // namespace

Rule adasum() {
  return {.need = Need::matrix,
          .apply = [](const Statistics& statistics, const std::vector<double>&) { return step(statistics); }};
}

}  // namespace flockstep::math
