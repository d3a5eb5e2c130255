// DiLoCo as one would write it with everybody's model at hand, in double: all workers at once, number by number. Shares
// nothing with src/algorithms but the names of its options, and how a model is divided into shards.
//
// Numbers are rounded to float where a worker stores them: a coarse wire rounds to one side or the other by their last
// bits.
#pragma once

#include <cmath>
#include <optional>

#include "algorithms/quadratic.h"
#include "kernels/types.h"
#include "math/oracle.h"

namespace flockstep::test {

struct DilocoScene {
  std::string rule = "mean", wire = "float32";
  int period = 4, fragments = 1, delay = 0;
  double alpha = 1, rate = 0.7, momentum = 0.9;
  std::size_t size = 37, bucket_floats = 8;

  base::Settings settings() const {
    const auto text = [](double value) { return std::to_string(value); };
    return {{"rule", rule},
            {"wire", wire},
            {"period", std::to_string(period)},
            {"fragments", std::to_string(fragments)},
            {"delay", std::to_string(delay)},
            {"alpha", text(alpha)},
            {"rate", text(rate)},
            {"momentum", text(momentum)},
            {"guard", "off"}};
  }
  Scene scene(int workers) const {
    Scene scene{.algorithm = "diloco", .workers = workers, .settings = settings()};
    scene.size = size;
    scene.bucket_floats = bucket_floats;
    return scene;
  }
  bool is_in_place() const { return delay == 0 && alpha == 1; }
};

inline double stored(double value) { return static_cast<double>(static_cast<float>(value)); }

inline void PrintTo(const DilocoScene& scene, std::ostream* out) {
  for (const auto& [name, value] : scene.settings()) *out << name << " " << value << ", ";
  *out << scene.size << " numbers";
}

// Every rule, wire and way once.
inline std::vector<DilocoScene> diloco_scenes() {
  return {{},
          {.rule = "direction_consensus"},
          {.rule = "adacons", .wire = "bfloat16"},
          {.wire = "int8"},
          {.wire = "int8", .period = 9, .fragments = 3},
          {.period = 8, .alpha = 0.5},
          {.wire = "bfloat16", .period = 8, .fragments = 2, .delay = 2}};
}

class DilocoOracle {
 public:
  using Vector = std::vector<double>;

  DilocoOracle(const DilocoScene& scene, int workers)
      : scene_(scene),
        workers_(static_cast<std::size_t>(workers)),
        outer_(scene.size),
        velocity_(scene.size),
        lost_results_(scene.size),
        models_(workers_, Vector(scene.size)),
        lost_(workers_, Vector(scene.size)),
        consensus_(static_cast<std::size_t>(scene.fragments), {.beta = 0.9, .eps = 1e-8}) {}

  const Vector& of(int rank) const { return models_[static_cast<std::size_t>(rank)]; }
  const Vector& outer() const { return outer_; }

  // One local step: these updates, which those who are there add. Empty: everybody is.
  void step(int step, const std::vector<Model>& updates, const std::vector<bool>& present = {}) {
    for (std::size_t j = 0; j < workers_; ++j)
      for (std::size_t k = 0; (present.empty() || present[j]) && k < scene_.size; ++k)
        models_[j][k] = stored(models_[j][k] + static_cast<double>(updates[j][k]));
    if (under_way_ && step == lands_after_) land();
    for (int fragment = 0; fragment < scene_.fragments; ++fragment)
      if ((step + 1) % scene_.period == turn_of(fragment)) {
        under_way_ = static_cast<std::size_t>(fragment);
        snapshots_ = models_;
        present_ = present.empty() ? std::vector<bool>(workers_, true) : present;
        lands_after_ = step + scene_.delay;
        if (scene_.delay == 0) land();
      }
  }

 private:
  // Turns are as even as whole steps can be, the longer ones first.
  int turn_of(int fragment) const {
    const int longer = scene_.period % scene_.fragments;
    return fragment * (scene_.period / scene_.fragments) + std::min(fragment, longer);
  }
  runtime::Range range_of(std::size_t fragment) const {
    const base::Partition parts(scene_.size, static_cast<std::size_t>(scene_.fragments));
    return {parts.begin(fragment), parts.size(fragment)};
  }

  // What arrives of x at a wire that keeps what it loses; x and lost are of one shard.
  double narrowed(double& lost, double x) const {
    const double sum = stored(x + lost);
    const double held = static_cast<double>(kernels::to_float(kernels::to_bfloat16(static_cast<float>(sum))));
    lost = sum - held;
    return held;
  }
  void through_wire(std::span<double> x, std::span<double> lost) const {
    if (scene_.wire == "float32") return;
    if (scene_.wire == "bfloat16") {
      for (std::size_t k = 0; k < x.size(); ++k) x[k] = narrowed(lost[k], x[k]);
      return;
    }
    for (std::size_t begin = 0; begin < x.size(); begin += 256) {
      const std::size_t end = std::min(x.size(), begin + 256);
      double largest = 0;
      for (std::size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(stored(x[k] + lost[k])));
      const double unit = stored(largest / 127);
      for (std::size_t k = begin; k < end && unit > 0; ++k) {
        const double sum = stored(x[k] + lost[k]);
        x[k] = stored(unit * std::nearbyint(stored(sum * stored(1 / unit))));
        lost[k] = stored(sum - x[k]);
      }
    }
  }
  template <typename F>
  void each_shard(runtime::Range fragment, const F& action) const {
    const runtime::Layout layout(fragment.size, scene_.bucket_floats);
    const auto shards = runtime::Shards::by_bucket(layout, workers_);
    for (std::size_t bucket = 0; bucket < shards.buckets(); ++bucket)
      for (std::size_t owner = 0; owner < workers_; ++owner) {
        const runtime::Range shard = shards.of(bucket, owner);
        action(runtime::Range{fragment.begin + shard.begin, shard.size});
      }
  }

  Vector combined(const std::vector<Vector>& updates, std::size_t fragment) {
    namespace oracle = math::oracle;
    if (scene_.rule == "mean")
      return oracle::scaled(stored(1.0 / static_cast<double>(updates.size())), oracle::sum(updates));
    const double median = oracle::lower_median_norm(updates);
    if (scene_.rule == "normalized_mean") return oracle::scaled(median, oracle::normalized_mean(updates, 1e-8));
    if (scene_.rule == "geometric_median")
      return oracle::scaled(median, oracle::geometric_median_of_directions(updates, 10, 1e-8));
    if (scene_.rule == "direction_consensus") return oracle::scaled(median, consensus_[fragment].step(updates));
    const Vector sum = oracle::adasum(updates);
    return oracle::scaled(oracle::mean_norm(updates) / oracle::norm(sum), sum);
  }

  void land() {
    const runtime::Range range = range_of(*under_way_);
    std::vector<Vector> counted;
    for (std::size_t j = 0; j < workers_; ++j) {
      if (!present_[j]) continue;
      Vector update(scene_.size);
      for (std::size_t k = range.begin; k < range.end(); ++k) update[k] = stored(outer_[k] - snapshots_[j][k]);
      each_shard(range, [&](runtime::Range shard) {
        through_wire(shard.of(std::span(update)), shard.of(std::span(lost_[j])));
      });
      counted.emplace_back(update.begin() + static_cast<std::ptrdiff_t>(range.begin),
                           update.begin() + static_cast<std::ptrdiff_t>(range.end()));
    }
    const Vector part = combined(counted, *under_way_);
    Vector result(scene_.size);
    std::transform(part.begin(), part.end(), result.begin() + static_cast<std::ptrdiff_t>(range.begin), stored);
    each_shard(range, [&](runtime::Range shard) {
      through_wire(shard.of(std::span(result)), shard.of(std::span(lost_results_)));
    });
    const double along = stored(scene_.rate), further = stored(scene_.rate * scene_.momentum);
    for (std::size_t k = range.begin; k < range.end(); ++k) {
      velocity_[k] = stored(stored(scene_.momentum) * velocity_[k] + result[k]);
      outer_[k] = stored(outer_[k] - along * result[k] - further * velocity_[k]);
      for (std::size_t j = 0; j < workers_; ++j)
        models_[j][k] = present_[j] ? stored(models_[j][k] + scene_.alpha * (outer_[k] - snapshots_[j][k])) : outer_[k];
    }
    under_way_.reset();
  }

  DilocoScene scene_;
  std::size_t workers_;
  Vector outer_, velocity_, lost_results_;
  std::vector<Vector> models_, lost_, snapshots_;
  std::vector<bool> present_;
  std::vector<math::oracle::DirectionConsensus> consensus_;
  std::optional<std::size_t> under_way_;
  int lands_after_ = 0;
};

}  // namespace flockstep::test
