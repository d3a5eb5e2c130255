#include "algorithms/rules/against_others.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace flockstep::algorithms {
namespace {

constexpr std::int64_t kTold = 10;  // steps without a worker before that is more than an accident

math::UpdateGuard::Update update_of(double squared_norm, std::span<const float> sketch) {
  base::check(sketch.size() <= math::UpdateNews::kSketch, "a sketch that fits");
  math::UpdateGuard::Update update{.squared_norm = squared_norm};
  std::ranges::copy(sketch, update.sketch.begin());
  return update;
}

}  // namespace

AgainstOthers::AgainstOthers(std::size_t rank, std::size_t workers)
    : rank_(rank), guard_(std::max<std::size_t>(2, workers) - 1) {}

std::size_t AgainstOthers::sketch_length(std::size_t numbers) {
  return std::bit_floor(std::clamp<std::size_t>(numbers, 1, math::UpdateNews::kSketch));
}

void AgainstOthers::observe(const math::Statistics& statistics, const std::vector<std::span<const float>>& sketches) {
  for (std::size_t i = 0; i < sketches.size(); ++i)
    if (i != rank_ && statistics.weights[i] != 0)
      guard_.hear(static_cast<int>(i), guard_.news_of(update_of(statistics.q[i], sketches[i])));
  if (statistics.weights[rank_] != 0) guard_.judge(update_of(statistics.q[rank_], sketches[rank_]));
}

void AgainstOthers::count(bool is_left_out) {
  ++steps_;
  steps_left_out_ += is_left_out;
}

std::vector<math::Finding> AgainstOthers::findings() const {
  if (steps_left_out_ < kTold) return {};
  return {{math::FindingKind::against,
           {static_cast<int>(rank_)},
           0,
           steps_ - 1,
           static_cast<double>(steps_left_out_),
           fmt::format("worker {}'s gradient was left out of {} of {} averages: it is more than twice as long as the "
                       "others' and points against them",
                       rank_, steps_left_out_, steps_)}};
}

void AgainstOthers::save(base::Archive& archive) const {
  const std::vector<double> state = guard_.state();
  archive.put("rule against", std::span<const double>(state));
}

void AgainstOthers::restore(const base::Archive& archive) {
  if (archive.has("rule against")) guard_.set_state(archive.get_vector<double>("rule against"));
}

}  // namespace flockstep::algorithms
