#include "bench/late.h"

#include <numeric>

#include "bench/plain_all_reduce.h"
#include "bench/workers.h"
#include "math/groups.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/round_agent.h"

namespace flockstep::bench {
namespace {

constexpr int kBackToBack = 5;  // rounds that nothing stands between
constexpr const char *kRound = "round", *kAllReduce = "all-reduce";

Spread divided(const Spread& spread, double divisor) {
  return {.median = spread.median / divisor, .lower = spread.lower / divisor, .upper = spread.upper / divisor};
}

}  // namespace

LateArrivals measure_late_arrivals(engines::Engine& engine, const HarnessOptions& harness) {
  runtime::Context context(engine, kPatience);
  const int rank = engine.rank(), workers = engine.size(), group_size = math::default_group_size(workers);
  const auto model = engine.memory().allocate<float>(kLateFloats, "model"),
             sum = engine.memory().allocate<float>(kLateFloats, "sum");
  PlainAllReduce plain_all_reduce(context, kLateFloats);
  const auto all_reduce = [&] { plain_all_reduce(sum.span()); };
  fill_input(rank, model.span());
  runtime::PublishedModel published(context, kLateFloats);
  published.reset(model.span());
  runtime::RoundAgent agent(context, rounds_without_end(workers, group_size), kLateFloats, kLateFloats, published);
  protocol::Iteration iteration = 0;
  const auto arrive = [&] { return *agent.arrive(iteration++, model.span()); };

  meet(context);
  verify_merged(math::GroupSchedule(workers, group_size).group_of(rank, 0), rank, arrive(), model.span());
  fill_input(rank, sum.span());
  all_reduce();
  std::vector<int> everybody(static_cast<std::size_t>(workers));
  std::iota(everybody.begin(), everybody.end(), 0);
  verify_sum(everybody, sum.span(), "the all-reduce");

  std::ranges::fill(sum.span(), 0.0f);
  const auto late = [&](const auto& action) {
    return [&engine, rank, action] {
      for (int i = 0; i < kBackToBack; ++i) {
        if (rank > 0) engine.sleep(rank * kLateness);
        action();
      }
    };
  };
  const auto together = [&] { meet(context); };
  const std::vector<Contender> contenders{{kRound, late(arrive), together}, {kAllReduce, late(all_reduce), together}};
  const Timings timings = run_interleaved(contenders, harness);
  meet(context);
  return {.round_seconds = divided(timings.seconds(kRound), kBackToBack),
          .all_reduce_seconds = divided(timings.seconds(kAllReduce), kBackToBack),
          .over_all_reduce = timings.ratio(kRound, kAllReduce)};
}

}  // namespace flockstep::bench
