#include "bench/mean.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "algorithms/registry.h"
#include "base/hash.h"
#include "base/random.h"
#include "engines/registry.h"
#include "runtime/gather.h"

namespace flockstep::bench {
namespace {

constexpr base::Duration kPatience{120};
constexpr double kA5Bar = 0.80;
constexpr const char *kMean = "mean", *kAllReduce = "all_reduce";

void fill_input(int rank, std::span<float> values) {
  base::Random(1, base::Purpose::test, static_cast<std::uint32_t>(rank)).fill_uniform(values, -1, 1);
}

[[noreturn]] void wrong(const std::string& what) {
  throw Error(ErrorCode::mismatch, fmt::format("the benchmark's result is wrong before it is timed: {}", what));
}

// Against doubles over the first part, against the engine's own sum over all of it, and between the workers to the bit.
void verify(runtime::Context& context, std::span<const float> mean, std::span<const float> sum) {
  const double workers = context.size();
  const std::size_t part = std::min<std::size_t>(mean.size(), 1 << 18);
  std::vector<double> expected(part);
  std::vector<float> input(part);
  for (int rank = 0; rank < context.size(); ++rank) {
    fill_input(rank, input);
    for (std::size_t i = 0; i < part; ++i) expected[i] += input[i] / workers;
  }
  const double tolerance = 1e-6;  // inputs are below one; an all-reduce of its own order rounds P - 1 times
  for (std::size_t i = 0; i < part; ++i)
    if (std::abs(mean[i] - expected[i]) > tolerance) wrong(fmt::format("mean is off at {}", i));
  for (std::size_t i = 0; i < mean.size(); ++i)
    if (std::abs(mean[i] - sum[i] / workers) > tolerance) wrong(fmt::format("mean and all-reduce differ at {}", i));

  const double hash = static_cast<double>(base::hash_of(mean) >> 11);  // exact in a double
  for (const double theirs : runtime::gather_doubles(context, {&hash, 1}))
    if (theirs != hash) wrong("workers hold different bits");
}

// A round lasts as long as its slowest worker.
Timings slowest(runtime::Context& context, const Timings& mine) {
  std::vector<std::vector<double>> times;
  for (const std::string& name : mine.names()) {
    const auto own = mine.seconds_of(name);
    const auto all = runtime::gather_doubles(context, own);
    std::vector<double> longest(own.size());
    for (std::size_t i = 0; i < all.size(); ++i) longest[i % own.size()] = std::max(longest[i % own.size()], all[i]);
    times.push_back(std::move(longest));
  }
  return {{mine.names().begin(), mine.names().end()}, std::move(times)};
}

MeanBench measure(engines::Engine& engine, const engines::Backend& backend, const MeanBenchOptions& options) {
  runtime::Context context(engine, kPatience);
  const runtime::Layout layout(options.floats, static_cast<std::size_t>(options.bucket_kib) * 256);
  const base::Settings settings;
  const auto algorithm = algorithms::find_algorithm(kMean).make({context, layout, settings});
  auto mean = engine.memory().allocate<float>(options.floats, "gradient");
  auto sum = engine.memory().allocate<float>(options.floats, "gradient");
  fill_input(engine.rank(), mean.span());
  fill_input(engine.rank(), sum.span());
  algorithm->finish_gradient(mean.span());
  backend.plain_all_reduce(engine, sum.span());
  verify(context, mean.span(), sum.span());

  // Zeros from here on: sums of sums would overflow, and time does not depend on values.
  std::ranges::fill(mean.span(), 0.0f);
  std::ranges::fill(sum.span(), 0.0f);
  const auto together = [&](const std::function<void()>& action) {
    return [&context, action] {
      context.wait(context.engine().barrier(), "barrier");
      action();
    };
  };
  const std::vector<Contender> contenders{
      {kMean, together([&] { algorithm->finish_gradient(mean.span()); })},
      {kAllReduce, together([&] { backend.plain_all_reduce(engine, sum.span()); })},
  };
  const Timings timings = slowest(context, run_interleaved(contenders, options.harness));

  MeanBench result;
  result.workers = engine.size();
  result.rank = engine.rank();
  result.mean_seconds = timings.seconds(kMean);
  result.all_reduce_seconds = timings.seconds(kAllReduce);
  result.a5.id = "A5";
  result.a5.measure =
      fmt::format("mean / {} all-reduce, {} floats, P = {}", options.engine, options.floats, engine.size());
  result.a5.spread = timings.ratio(kMean, kAllReduce);
  result.a5.figure = result.a5.spread.median;
  result.a5.bar = kA5Bar;
  return result;
}

}  // namespace

MeanBench run_mean_bench(const MeanBenchOptions& options) {
  const engines::Backend& backend = engines::find_backend(options.engine);
  if (!backend.plain_all_reduce)
    throw Error(
        ErrorCode::bad_input,
        fmt::format(
            "the {} engine has no all-reduce of its own to compare with: run `mpirun -n 4 flockstep bench mean`",
            options.engine));
  std::optional<MeanBench> result;
  backend.run(options.launch, [&](engines::Engine& engine) { result = measure(engine, backend, options); });
  return *result;
}

}  // namespace flockstep::bench
