#include "bench/adacons.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "algorithms/registry.h"
#include "base/hash.h"
#include "bench/plain_all_reduce.h"
#include "bench/published.h"
#include "bench/workers.h"
#include "runtime/gather.h"

namespace flockstep::bench {
namespace {

constexpr double kAllReduceBar = 0.70, kTwoAllReducesBar = 0.30, kMemoryBar = 1.0, kSketchBar = 1.05;
constexpr const char *kOnePass = "one pass", *kTwo = "two all-reduces", *kAllReduce = "all-reduce", *kMean = "mean",
                     *kAfter = "after", *kOverlapped = "overlapped", *kMeanOverlapped = "mean overlapped",
                     *kSketchOverlapped = "sketch overlapped";

// AdaCons' first step in plain double loops, from the definition; every worker makes everybody's numbers again.
class Oracle {
 public:
  Oracle(std::size_t workers, std::size_t floats)
      : workers_(workers), floats_(floats), ranks_(workers), factors_(workers) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    std::vector<double> d(workers), q(workers);
    each_stretch(ranks_, floats, [&](std::size_t, const Rows& rows) {
      for (std::size_t k = 0; k < rows[0].size(); ++k) {
        double sum = 0;
        for (const auto& row : rows) sum += row[k];
        for (std::size_t i = 0; i < workers_; ++i) {
          d[i] += sum * rows[i][k];
          q[i] += static_cast<double>(rows[i][k]) * rows[i][k];
        }
      }
    });
    double total = 0;
    for (std::size_t i = 0; i < workers; ++i) total += d[i] / std::sqrt(q[i]);
    for (std::size_t i = 0; i < workers; ++i) factors_[i] = d[i] / q[i] / total;
  }

  // Compares every number of both.
  void verify(std::span<const float> adacons, std::span<const float> published, std::span<const float> mean,
              std::span<const float> sum) const {
    each_stretch(ranks_, floats_, [&](std::size_t begin, const Rows& rows) {
      for (std::size_t k = 0; k < rows[0].size(); ++k) {
        double expected = 0, plain = 0, scale = 0, factor = 0;
        for (std::size_t i = 0; i < workers_; ++i) {
          expected += factors_[i] * rows[i][k];
          plain += rows[i][k];
          scale += input_scale(ranks_[i]);
          factor = std::max(factor, factors_[i]);
        }
        const std::size_t place = begin + k;
        if (differ(adacons[place], expected, factor * scale)) wrong(fmt::format("one pass is off at {}", place));
        if (differ(published[place], expected, factor * scale))
          wrong(fmt::format("two all-reduces are off at {}", place));
        if (differ(mean[place], plain / static_cast<double>(workers_), scale))
          wrong(fmt::format("mean is off at {}", place));
        if (differ(sum[place], plain, scale)) wrong(fmt::format("the all-reduce is off at {}", place));
      }
    });
  }

 private:
  std::size_t workers_, floats_;
  std::vector<int> ranks_;
  std::vector<double> factors_;  // what each gradient is multiplied by
};

class Bench {
 public:
  Bench(engines::Engine& engine, const AdaConsBenchOptions& options)
      : engine_(engine),
        options_(options),
        context_(engine, kPatience),
        layout_(options.floats, static_cast<std::size_t>(options.bucket_kib) * 256),
        gradient_(allocate()),
        sum_(allocate()),
        plain_all_reduce_(context_, options.floats) {
    const std::size_t before = engine.memory().held_bytes();
    adacons_ = algorithms::find_algorithm("adacons").make({context_, layout_, settings_});
    extra_bytes_ = engine.memory().held_bytes() - before;
    mean_ = algorithms::find_algorithm("mean").make({context_, layout_, settings_});
    base::Settings sketch = settings_;
    sketch.insert({{"transfer", "sketch"}, {"magnitude", "matched"}, {"guard", "3"}});
    sketched_ = algorithms::find_algorithm("adacons").make({context_, layout_, sketch});
    published_.emplace(
        context_, options.floats, [this](std::span<float> values) { plain_all_reduce_(values); },
        math::AdaConsOptions{});
  }

  void verify() {
    auto adacons = allocate(), published = allocate(), mean = allocate();
    for (const auto& buffer : {&adacons, &published, &mean, &sum_}) fill_input(engine_.rank(), buffer->span());
    adacons_->finish_gradient(adacons.span(), 1);
    published_->aggregate(published.span());
    mean_->finish_gradient(mean.span(), 1);
    plain_all_reduce_(sum_.span());
    if (options_.wire == "float32")
      Oracle(static_cast<std::size_t>(engine_.size()), options_.floats)
          .verify(adacons.span(), published.span(), mean.span(), sum_.span());
    const double hash = static_cast<double>(base::hash_of(std::span<const float>(adacons.span())) >> 11);
    for (const double theirs : runtime::gather_doubles(context_, {&hash, 1}))
      if (theirs != hash) wrong("workers hold different bits");
  }

  // In place, again and again: the result of AdaCons has the norm of a direction, and a mean of equals stays. A sum of
  // sums would overflow, so those start from zeros: time does not depend on values.
  AdaConsBench measure() {
    fill_input(engine_.rank(), gradient_.span());
    std::ranges::fill(sum_.span(), 0.0f);
    std::vector<Contender> contenders{
        {kOnePass, together([this] { adacons_->finish_gradient(gradient_.span(), 1); })},
        {kTwo, together([this] { published_->aggregate(gradient_.span()); })},
        {kAllReduce, together([this] { plain_all_reduce_(sum_.span()); })},
        {kMean, together([this] { mean_->finish_gradient(gradient_.span(), 1); })},
    };
    if (options_.compute_ms > 0) {
      contenders.push_back({kAfter, together([this] { compute(*adacons_, false); })});
      contenders.push_back({kOverlapped, together([this] { compute(*adacons_, true); })});
      contenders.push_back({kMeanOverlapped, together([this] { compute(*mean_, true); })});
      contenders.push_back({kSketchOverlapped, together([this] { compute(*sketched_, true); })});
    }
    return summarise(slowest(context_, run_interleaved(contenders, options_.harness)));
  }

 private:
  base::Buffer<float> allocate() { return engine_.memory().allocate<float>(options_.floats, "gradient"); }

  std::function<void()> together(const std::function<void()>& action) {
    return [this, action] {
      meet(context_);
      action();
    };
  }

  // A backward pass on a device beside the processor: bucket after bucket is done at its time, whatever the processor
  // does meanwhile. Then the aggregation behind it.
  void compute(algorithms::Algorithm& algorithm, bool overlaps) {
    const auto buckets = layout_.buckets().size();
    const base::Time begin = engine_.now();
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      const base::Time done = begin + base::Duration(options_.compute_ms * 1e-3 * static_cast<double>(bucket + 1) /
                                                     static_cast<double>(buckets));
      if (const base::Duration left = done - engine_.now(); left.count() > 0) engine_.sleep(left);
      if (overlaps) algorithm.bucket_ready(bucket, gradient_.span());
    }
    algorithm.finish_gradient(gradient_.span(), 1);
  }

  // Round by round, since both were measured in each.
  Spread ratio_of_exposed(const Timings& timings) const {
    const auto sketched = timings.seconds_of(kSketchOverlapped), mean = timings.seconds_of(kMeanOverlapped);
    const double compute_s = options_.compute_ms * 1e-3;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < sketched.size(); ++i)
      ratios.push_back((sketched[i] - compute_s) / (mean[i] - compute_s));
    return spread_of(ratios);
  }

  AdaConsBench summarise(const Timings& timings) const {
    AdaConsBench result;
    result.workers = engine_.size();
    result.rank = engine_.rank();
    result.own_ring = plain_all_reduce_.is_own_ring();
    result.one_pass_seconds = timings.seconds(kOnePass);
    result.two_all_reduces_seconds = timings.seconds(kTwo);
    result.all_reduce_seconds = timings.seconds(kAllReduce);
    result.mean_seconds = timings.seconds(kMean);
    if (options_.compute_ms > 0) {
      const auto exposed = [&](const char* name) {
        std::vector<double> seconds;
        for (const double each : timings.seconds_of(name)) seconds.push_back(each - options_.compute_ms * 1e-3);
        return spread_of(seconds);
      };
      result.exposed_after_seconds = exposed(kAfter);
      result.exposed_overlapped_seconds = exposed(kOverlapped);
      result.exposed_mean_seconds = exposed(kMeanOverlapped);
      result.exposed_sketch_seconds = exposed(kSketchOverlapped);
    }
    const std::string where = fmt::format("{} {}, {} floats, P = {}", options_.engine,
                                          plain_all_reduce_.is_own_ring() ? "ring all-reduce" : "all-reduce",
                                          options_.floats, engine_.size());
    const auto target = [&](const char* id, const std::string& measure, const Spread& spread, double bar) {
      result.targets.push_back(at_most(id, measure, spread, bar));
    };
    target("A1", "adacons / " + where, timings.ratio(kOnePass, kAllReduce), kAllReduceBar);
    target("A2", "adacons / two times " + where, timings.ratio(kOnePass, kTwo), kTwoAllReducesBar);
    target("A5", "mean / " + where, timings.ratio(kMean, kAllReduce), kAllReduceBar);
    const double share = static_cast<double>(extra_bytes_) / static_cast<double>(options_.floats * sizeof(float));
    target("A6", fmt::format("extra memory of adacons / the gradient, P = {}", engine_.size()), constant(share),
           kMemoryBar);
    if (options_.compute_ms > 0)
      target("A7",
             fmt::format("exposed after {:.4g} ms of backward, adacons with sketch / mean, {} floats, P = {}",
                         options_.compute_ms, options_.floats, engine_.size()),
             ratio_of_exposed(timings), kSketchBar);
    return result;
  }

  engines::Engine& engine_;
  const AdaConsBenchOptions& options_;
  base::Settings settings_{{"wire", options_.wire}};
  runtime::Context context_;
  runtime::Layout layout_;
  base::Buffer<float> gradient_, sum_;
  PlainAllReduce plain_all_reduce_;
  std::unique_ptr<algorithms::Algorithm> adacons_, mean_, sketched_;
  std::optional<PublishedAdaCons> published_;
  std::size_t extra_bytes_ = 0;
};

}  // namespace

AdaConsBench run_adacons_bench(const AdaConsBenchOptions& options) {
  const engines::Backend& backend = find_real_backend(options.engine);
  algorithms::find_algorithm("adacons").check({{"wire", options.wire}}, 1);
  return run_on_workers<AdaConsBench>(backend, options.launch, [&](engines::Engine& engine) {
    Bench bench(engine, options);
    bench.verify();
    return bench.measure();
  });
}

}  // namespace flockstep::bench
