#include "math/update_guard.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "math/guard.h"

namespace flockstep::math {
namespace {

using Direction = std::array<double, UpdateNews::kSketch>;

double dot(const Direction& x, const Direction& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

// Of length one, or zero.
Direction direction_of(const UpdateNews& news) {
  Direction direction;
  std::ranges::copy(news.sketch, direction.begin());
  const double norm = std::sqrt(dot(direction, direction));
  for (double& number : direction) number = norm > 0 && std::isfinite(norm) ? number / norm : 0;
  return direction;
}

}  // namespace

bool are_alike(const UpdateNews& x, const UpdateNews& y) {
  constexpr double kSame = 1e-5;
  return std::abs(x.norm - y.norm) <= kSame * x.norm && dot(direction_of(x), direction_of(y)) >= 1 - kSame;
}

void UpdateGuard::hear(int peer, const UpdateNews& news) {
  if (!(news.norm > 0) || !std::isfinite(news.norm) || !(news.steps >= 1) || !std::isfinite(news.steps)) return;
  if (std::exchange(last_[peer], news.norm) == news.norm) return;
  heard_.push_back(news);
  if (heard_.size() > remembered_) heard_.pop_front();
}

double UpdateGuard::reference() const {
  if (heard_.empty()) return 0;
  std::vector<double> norms;
  for (const UpdateNews& news : heard_)
    norms.push_back(static_cast<double>(news.norm) *
                    std::sqrt(std::max(1.0, static_cast<double>(news.steps) / steps())));
  return lower_median(std::move(norms));
}

// All pairs at once: |sum e|^2 = n + the cosines of all pairs, twice.
void UpdateGuard::compare(const UpdateNews& news) {
  const auto n = static_cast<double>(heard_.size());
  if (n < 2) return;
  Direction sum{};
  for (const UpdateNews& other : heard_) {
    const Direction direction = direction_of(other);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += direction[k];
  }
  const auto smooth = [](double& value, double next) { value = kSmoothing * value + (1 - kSmoothing) * next; };
  smooth(agreement_, dot(direction_of(news), sum) / n);
  smooth(in_common_, (dot(sum, sum) - n) / (n * (n - 1)));
}

double UpdateGuard::norm_of(double squared_norm) const { return std::sqrt(squared_norm) / steps(); }

UpdateNews UpdateGuard::news_of(const Update& update) const {
  const double norm = norm_of(update.squared_norm);
  return std::isfinite(norm) ? UpdateNews{static_cast<float>(norm), static_cast<float>(steps()), update.sketch}
                             : UpdateNews{};
}

double UpdateGuard::factor_of(double squared_norm) const {
  const double norm = norm_of(squared_norm);
  if (!std::isfinite(norm)) return 0;
  const double factor = guard_factor(kRatio, reference(), norm);
  return factor < 1 && is_against() ? 0 : factor;
}

double UpdateGuard::judge(const Update& update) {
  const double norm = norm_of(update.squared_norm);
  news_ = news_of(update);
  if (std::isfinite(norm) && norm > 0) compare(news_);
  const double factor = factor_of(update.squared_norm), measure = reference();
  steps_ = 0;
  if (norm == 0) return 1;
  ++counts_.updates;
  if (!std::isfinite(norm)) {
    ++counts_.non_finite;
  } else if (factor < 1) {
    ++counts_.clipped;
    counts_.against += factor == 0;
    counts_.excess += norm / measure;
  }
  return factor;
}

std::vector<double> UpdateGuard::state() const {
  std::vector<double> state{static_cast<double>(steps_), agreement_, in_common_};
  for (const UpdateNews& news : heard_) {
    state.insert(state.end(), {static_cast<double>(news.norm), static_cast<double>(news.steps)});
    state.insert(state.end(), news.sketch.begin(), news.sketch.end());
  }
  return state;
}

bool UpdateGuard::set_state(std::span<const double> state) {
  constexpr std::size_t kOwn = 3, kNews = 2 + UpdateNews::kSketch;
  if (state.size() < kOwn || (state.size() - kOwn) % kNews != 0) return false;
  steps_ = static_cast<std::int64_t>(state[0]);
  agreement_ = state[1];
  in_common_ = state[2];
  heard_.clear();
  for (std::size_t at = kOwn; at < state.size(); at += kNews) {
    UpdateNews& news =
        heard_.emplace_back(UpdateNews{static_cast<float>(state[at]), static_cast<float>(state[at + 1])});
    std::transform(&state[at + 2], &state[at + 2] + UpdateNews::kSketch, news.sketch.begin(),
                   [](double number) { return static_cast<float>(number); });
  }
  return true;
}

}  // namespace flockstep::math
