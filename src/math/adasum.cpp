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

struct Subset {
  std::vector<double> c;
  double workers;  // that it stands for
};

Subset merged(const Statistics& statistics, double nearly_zero, const Subset& x, const Subset& y) {
  const double workers = x.workers + y.workers;
  const double xx = product(statistics, x.c, x.c), yy = product(statistics, y.c, y.c),
               xy = product(statistics, x.c, y.c);
  if (xx <= nearly_zero) return {y.c, workers};
  if (yy <= nearly_zero) return {x.c, workers};
  const double of_x = 1 - x.workers / workers * xy / xx, of_y = 1 - y.workers / workers * xy / yy;
  std::vector<double> sum(x.c.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = of_x * x.c[i] + of_y * y.c[i];
  return {std::move(sum), workers};
}

std::optional<RuleResult> adasum_step(const Statistics& statistics) {
  const std::size_t P = statistics.workers();
  const double nearly_zero = 1e-12 * std::accumulate(statistics.q.begin(), statistics.q.end(), 0.0);  // of trace K
  std::vector<Subset> level(P, {std::vector<double>(P), 1});
  for (std::size_t i = 0; i < P; ++i) level[i].c[i] = 1;
  while (level.size() > 1) {
    std::vector<Subset> above;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2)
      above.push_back(merged(statistics, nearly_zero, level[i], level[i + 1]));
    if (level.size() % 2 == 1) above.push_back(std::move(level.back()));
    level = std::move(above);
  }
  return RuleResult{.c = std::move(level.front().c), .memory = {}};
}

}  // namespace

Rule adasum() {
  return {.need = Need::matrix,
          .apply = [](const Statistics& statistics, const std::vector<double>&) { return adasum_step(statistics); }};
}

}  // namespace flockstep::math
