#include "math/update_guard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "math/geometric_median.h"
#include "math/guard.h"

namespace flockstep::math {
namespace {

constexpr double kNoCosine = 2;  // in a state: none is known

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

void add(Direction& sum, const Direction& direction) {
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += direction[k];
}

double smoothed(double value, double next) {
  return UpdateGuard::kSmoothing * value + (1 - UpdateGuard::kSmoothing) * next;
}

}  // namespace

bool are_alike(const UpdateNews& x, const UpdateNews& y) {
  constexpr double kSame = 1e-5;
  return std::abs(x.norm - y.norm) <= kSame * x.norm && dot(direction_of(x), direction_of(y)) >= 1 - kSame;
}

void UpdateGuard::hear(int peer, const UpdateNews& news) {
  counts_of_others_[peer] = news.counts;
  if (!(news.norm > 0) || !std::isfinite(news.norm) || !(news.steps >= 1) || !std::isfinite(news.steps)) return;
  if (std::exchange(last_[peer], news.norm) == news.norm) return;
  others_move_ = true;
  heard_.push_back({peer, news});
  if (heard_.size() > remembered_) heard_.pop_front();
}

void UpdateGuard::forget(int peer) {
  std::erase_if(heard_, [peer](const Heard& heard) { return heard.peer == peer; });
  last_.erase(peer);
}

double UpdateGuard::reference() const {
  if (heard_.empty()) return 0;
  std::vector<double> norms;
  for (const auto& [peer, news] : heard_)
    norms.push_back(static_cast<double>(news.norm) *
                    std::sqrt(std::max(1.0, static_cast<double>(news.steps) / steps())));
  return lower_median(std::move(norms));
}

double UpdateGuard::longest_squared() const {
  const double longest = kRatio * reference() * steps();
  return longest > 0 ? longest * longest : std::numeric_limits<double>::infinity();
}

// All pairs at once: |sum e|^2 = n + the cosines of all pairs, twice.
void UpdateGuard::compare() {
  const auto n = static_cast<double>(heard_.size());
  if (n < 2) return;
  Direction sum{};
  for (const auto& [peer, news] : heard_) add(sum, direction_of(news));
  agreement_ = smoothed(agreement_, dot(direction_of(news_), sum) / n);
  in_common_ = smoothed(in_common_, (dot(sum, sum) - n) / (n * (n - 1)));
}

// A schedule that ends at zero stops all workers at once, so an update only counts where another worker has moved since
// the one before.
void UpdateGuard::look_for_idleness(double norm) {
  if (!(norm < kIdle * reference()))
    idle_ = 0;
  else if (others_move_)
    ++idle_;
  others_move_ = false;
  news_.counts.idle = std::max(news_.counts.idle, idle_);
}

void UpdateGuard::look_astray() {
  if (idle_ > 0) return;
  Direction sum{};
  std::set<int> peers;
  for (auto heard = heard_.rbegin(); heard != heard_.rend(); ++heard)
    if (peers.insert(heard->peer).second) add(sum, direction_of(heard->news));
  const auto m = static_cast<double>(peers.size());
  if (m < 2) return;
  block_.own += dot(direction_of(news_), sum) / m;
  block_.others += (dot(sum, sum) - m) / (m * (m - 1));
  block_.least += std::max(kLevel, 2 / std::sqrt(UpdateNews::kSketch * m * (m - 1) / 2));
  if (++block_.updates < kBlock) return;
  const Block block = std::exchange(block_, {});
  const bool is_against = block.others >= block.least && block.own <= -block.others / 2,
             is_apart = block.others >= 2.5 * block.least && block.own <= block.others / 4;
  astray_ = is_against || is_apart ? astray_ + kBlock : 0;
  astray_cosines_ = astray_ > 0 ? astray_cosines_ + block.own : 0;
  if (astray_ <= news_.counts.astray) return;
  news_.counts.astray = astray_;
  news_.counts.cosine = static_cast<float>(astray_cosines_) / astray_;
}

std::vector<UpdateNews> UpdateGuard::newest_of_each() const {
  std::vector<UpdateNews> newest;
  std::set<int> peers;
  for (auto heard = heard_.rbegin(); heard != heard_.rend(); ++heard)
    if (peers.insert(heard->peer).second) newest.push_back(heard->news);
  return newest;
}

double UpdateGuard::weight_by_agreement(const std::vector<UpdateNews>& others) {
  const Direction own = direction_of(news_);
  Direction sum = own;
  for (const UpdateNews& news : others) add(sum, direction_of(news));
  const double agreement = dot(own, sum) / static_cast<double>(1 + others.size());
  consensus_ = consensus_ ? smoothed(*consensus_, agreement) : agreement;
  news_.agreement = static_cast<float>(*consensus_);
  double n = 1, total = std::max(0.0, *consensus_);
  for (const UpdateNews& news : others) {
    n += news.agreement != 0;
    total += std::max(0.0, static_cast<double>(news.agreement));
  }
  return total > 0 ? n * std::max(0.0, *consensus_) / total : 1;
}

double UpdateGuard::weight_by_median(const std::vector<UpdateNews>& others) const {
  std::vector<Direction> directions{direction_of(news_)};
  std::ranges::transform(others, std::back_inserter(directions), direction_of);
  std::vector<double> cosines;  // packed
  for (std::size_t i = 0; i < directions.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) cosines.push_back(dot(directions[i], directions[j]));
  const std::vector<double> ones(directions.size(), 1);
  const auto result = geometric_median().apply(Statistics::of_matrix(std::move(cosines), ones), {});
  return result ? static_cast<double>(directions.size()) * result->c.front() : 1;
}

// n c
double UpdateGuard::weigh() {
  if (weights_ == UpdateWeights::mean || heard_.empty()) return 1;
  const std::vector<UpdateNews> others = newest_of_each();
  return weights_ == UpdateWeights::direction_consensus ? weight_by_agreement(others) : weight_by_median(others);
}

double UpdateGuard::norm_of(double squared_norm) const { return std::sqrt(squared_norm) / steps(); }

UpdateNews UpdateGuard::news_of(const Update& update) const {
  const double norm = norm_of(update.squared_norm);
  if (!std::isfinite(norm)) return {.counts = news_.counts};
  return {.norm = static_cast<float>(norm),
          .steps = static_cast<float>(steps()),
          .sketch = update.sketch,
          .counts = news_.counts};
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
  double weight = 1;
  if (std::isfinite(norm) && norm > 0) {
    compare();
    weight = weigh();
    look_for_idleness(norm);
    look_astray();
  } else if (norm == 0) {
    look_for_idleness(norm);
  }
  const double length = std::max(1.0, weight), factor = factor_of(length * length * update.squared_norm),
               measure = reference();
  steps_ = 0;
  UpdateCounts& counts = news_.counts;
  ++counts.updates;
  if (norm == 0) return 1;
  if (!std::isfinite(norm)) {
    ++counts.non_finite;
  } else if (factor < 1) {
    ++counts.clipped;
    counts.against += factor == 0 ? 1.0f : 0.0f;
    counts.excess += static_cast<float>(norm / measure);
  }
  return factor * weight;
}

std::vector<double> UpdateGuard::state() const {
  std::vector<double> state{static_cast<double>(steps_), agreement_, in_common_, consensus_.value_or(kNoCosine)};
  for (const auto& [peer, news] : heard_) {
    const auto numbers = std::bit_cast<UpdateNumbers>(news);
    state.push_back(peer);
    state.insert(state.end(), numbers.begin(), numbers.end());
  }
  return state;
}

bool UpdateGuard::set_state(std::span<const double> state) {
  constexpr std::size_t kOwn = 4, kEach = 1 + std::tuple_size_v<UpdateNumbers>;
  if (state.size() < kOwn || (state.size() - kOwn) % kEach != 0) return false;
  steps_ = static_cast<std::int64_t>(state[0]);
  agreement_ = state[1];
  in_common_ = state[2];
  consensus_ = state[3] == kNoCosine ? std::nullopt : std::optional(state[3]);
  heard_.clear();
  for (std::size_t at = kOwn; at < state.size(); at += kEach) {
    UpdateNumbers numbers;
    std::transform(&state[at + 1], &state[at] + kEach, numbers.begin(),
                   [](double number) { return static_cast<float>(number); });
    heard_.push_back({static_cast<int>(state[at]), std::bit_cast<UpdateNews>(numbers)});
  }
  return true;
}

}  // namespace flockstep::math
