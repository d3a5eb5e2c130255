// Rules with the coefficients of the step before, through engines: against math::Sketched on everybody's gradients in
// one place, whose own tests hold it to the definition.
#include "algorithms/rules/sketched_rule.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "gradients.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/reference.h"
#include "support/refusal.h"

namespace flockstep::algorithms::sketched_rule_test {
namespace {

using namespace rule_tests;

constexpr std::size_t kSize = 300, kBucket = 32;

const Sends kHealthy = healthy(kSize);
Sends with(std::size_t bad, std::function<void(Floats&, std::int64_t)> spoil) {
  return spoilt(kHealthy, bad, std::move(spoil));
}

// The same on one worker that sees everybody.
class Together {
 public:
  Together(std::string_view name, const base::Settings& settings, std::size_t workers)
      : choice_(find_algorithm(name).rule(settings)),
        layout_(kSize, kBucket),
        length_(sketch_length_for(choice_.common, kSize, workers)),
        sketched_(choice_.rule, choice_.common.aggregate, shape(workers)) {}

  oracle::Vector step(const std::vector<Floats>& gradients, const std::vector<bool>& present = {}) {
    const std::size_t workers = gradients.size(), buckets = layout_.buckets().size();
    math::SketchedStep told;
    std::vector<Floats> sketches(workers, Floats(length_ * (per_bucket() ? buckets : 1)));
    const auto key = kernels::sketch_key(1, static_cast<std::uint32_t>(sketched_.steps()));
    oracle::Vector result(kSize);
    double sum = 0;
    for (std::size_t i = 0; i < workers; ++i) {
      const double weight = choice_.rule.uses_weights ? weight_of(i) : 1;
      told.weights.push_back(present.empty() || present[i] ? weight : 0);
      sum += told.weights.back();
    }
    std::uint32_t chunk = 0;
    told.norms.resize(workers);
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      const auto range = layout_.buckets()[bucket];
      std::vector<double> norms;
      for (std::size_t i = 0; i < workers; ++i) {
        const std::span<const float> numbers = range.of(std::span(gradients[i]));
        const double square = kernels::cpu::sketch(
            numbers, key, chunk, std::span(sketches[i]).subspan(per_bucket() ? bucket * length_ : 0, length_));
        told.norms[i].push_back(told.weights[i] == 0 ? 0 : std::sqrt(square));
        norms.push_back(told.norms[i].back());
      }
      chunk += kernels::sketch_chunks(range.size);
      const auto c = sketched_.is_blind()      ? told.weights
                     : sketched_.knows(bucket) ? sketched_.coefficients(bucket)
                                               : math::Sketched::first_coefficients(norms);
      for (std::size_t i = 0; i < workers; ++i) {
        if (told.weights[i] == 0 || c[i] == 0) continue;
        const double factor = c[i] * sketched_.guard_factor(bucket, c[i], norms[i]);
        for (std::size_t k = range.begin; k < range.end(); ++k)
          result[k] += factor / (sketched_.is_blind() ? sum : 1) * static_cast<double>(gradients[i][k]);
      }
    }
    for (std::size_t i = 0; i < workers; ++i) {
      if (told.weights[i] == 0) std::ranges::fill(sketches[i], 0.0f);
      told.sketches.emplace_back(sketches[i]);
    }
    sketched_.observe(told);
    return result;
  }

 private:
  bool per_bucket() const { return choice_.common.granularity == runtime::Granularity::bucket; }
  math::SketchedShape shape(std::size_t workers) const {
    math::SketchedShape shape{.workers = workers, .buckets = {}, .section_per_bucket = per_bucket()};
    for (const auto& bucket : layout_.buckets()) shape.buckets.push_back(bucket.size);
    return shape;
  }

  RuleAndOptions choice_;
  runtime::Layout layout_;
  std::size_t length_;
  math::Sketched sketched_;
};

base::Settings sketch(base::Settings more = {}) {
  more.insert({{"transfer", "sketch"}, {"guard", "3"}});
  return more;
}

TEST(SketchedRules, giveOnEveryEngineWhatOneWorkerThatSeesAllWouldGive) {
  for (const std::string_view name : rules())
    for (const int workers : {1, 2, 3, 5})
      for (const char* const granularity : {"model", "bucket"})
        for (const Sends& sends : {kHealthy, with(1, [](Floats&numbers, std::int64_t step) {
                                     multiply(numbers, step == 3 ? 1000.0f : -0.5f);
                                   })}) {
          const base::Settings settings = sketch({{"granularity", granularity}});
          Together expected(name, settings, static_cast<std::size_t>(workers));
          const auto results = results_of(workers, name, settings, 6, sends);
          for (std::int64_t step = 0; step < 6; ++step) {
            std::vector<Floats> gradients;
            for (int rank = 0; rank < workers; ++rank) gradients.push_back(sends(static_cast<std::size_t>(rank), step));
            SCOPED_TRACE(testing::Message() << name << " by " << granularity << ", step " << step);
            expect_near(results[static_cast<std::size_t>(step)], expected.step(gradients));
          }
        }
}

TEST(SketchedRules, aSpikeMovesTheMeanByNoMoreThanTheGuardLetsIt) {
  const Sends spike = with(2, [](Floats& numbers, std::int64_t step) {
    if (step == 4) multiply(numbers, 1000);
  });
  const auto healthy = results_of(4, "mean", {{"guard", "3"}}, 6, kHealthy),
             guarded = results_of(4, "mean", {{"guard", "3"}}, 6, spike), plain = results_of(4, "mean", {}, 6, spike),
             counted = results_of(4, "mean", {{"guard", "count"}}, 6, spike);
  const auto norm = [](const Floats& numbers) { return std::sqrt(kernels::cpu::dot(numbers, numbers)); };
  EXPECT_GT(norm(plain[4]), 100 * norm(healthy[4]));
  EXPECT_LT(norm(guarded[4]), 3 * norm(healthy[4]));
  EXPECT_EQ(counted, plain);
  for (const std::size_t step : {0, 1, 2, 3, 5}) EXPECT_EQ(guarded[step], plain[step]) << "no guard is needed";
}

TEST(SketchedRules, numbersThatAreNotFiniteReachAllAlsoFromAWorkerThatDoesNotCount) {
  // Worker 1 points against the others, so its coefficient is 0 when it meets NaN, in the middle of one bucket.
  const Sends sends = with(1, [](Floats& numbers, std::int64_t step) {
    multiply(numbers, -5);
    if (step == 5) numbers[70] = kNan;
  });
  for (const char* const wire : {"float32", "bfloat16"}) {
    const auto results = results_of(4, "direction_consensus", sketch({{"wire", wire}}), 8, sends);
    for (std::size_t step = 0; step < results.size(); ++step) EXPECT_EQ(all_finite(results[step]), step != 5) << step;
    const auto left_out =
        results_of(4, "direction_consensus", sketch({{"wire", wire}, {"non_finite", "exclude"}}), 8, sends);
    for (const Floats& result : left_out) EXPECT_TRUE(all_finite(result));
  }
  for (const char* const name : {"mean", "weighted_mean", "adasum"})
    for (const Floats& result : results_of(4, name, sketch({{"non_finite", "exclude"}}), 8, sends))
      EXPECT_TRUE(all_finite(result)) << name;
}

TEST(SketchedRules, numbersThatAreNotFiniteReachAShardToo) {
  std::atomic<int> broken = 0;
  test::on_threads(4, [&](runtime::Context& context) {
    Member member(context, "direction_consensus", sketch(), kSize);
    for (std::int64_t step = 0; step < 6; ++step) {
      Floats gradient = kHealthy(member.rank, step);
      if (member.rank == 1) multiply(gradient, -5);
      if (member.rank == 1 && step == 5) gradient[70] = kNan;  // where it does not count any more
      const auto part = member.algorithm->reduce_scatter(gradient, 1);
      const bool is_finite = all_finite({part.begin(), part.end()});
      EXPECT_TRUE(is_finite || step == 5);
      broken += !is_finite;
    }
  });
  EXPECT_GT(broken, 0);
}

TEST(SketchedRules, theMeanOfThoseWhoAreNotLeftOutIsOverTheirNumber) {
  const Sends sends = with(2, [](Floats& numbers, std::int64_t) { numbers[0] = kNan; });
  const auto results = results_of(4, "mean", {{"guard", "9"}}, 8, sends);
  oracle::Vector expected(kSize);
  for (const std::size_t rank : {0, 1, 3}) {
    const Floats gradient = kHealthy(rank, 7);
    for (std::size_t k = 0; k < kSize; ++k) expected[k] += static_cast<double>(gradient[k]) / 3;
  }
  expect_near(results[7], expected);
}

TEST(SketchedRules, aModelOfOneNumberIsNoTrouble) {
  for (const Floats& result : results_of(3, "direction_consensus", sketch(), 4, healthy(1)))
    EXPECT_TRUE(all_finite(result));
}

TEST(SketchedRules, whoIsNeverFiniteIsLeftOutAfterFiveStepsUntilItIs) {
  const Sends sends = with(2, [](Floats& numbers, std::int64_t step) {
    if (step >= 2 && step < 14) numbers[0] = kNan;
  });
  for (const char* const name : {"mean", "direction_consensus", "adacons"})
    for (const base::Settings& settings :
         {sketch(), sketch({{"non_finite_patience", "0"}}), base::Settings{{"guard", "3"}},
          base::Settings{{"guard", "3"}, {"watch", "always"}}, base::Settings{{"guard", "3"}, {"watch", "2"}}}) {
      const auto results = results_of(4, name, settings, 18, sends);
      const bool waits = !settings.contains("non_finite_patience");
      for (std::size_t step = 0; step < results.size(); ++step)
        EXPECT_EQ(all_finite(results[step]), step < 2 || step >= (waits ? 7u : 14u)) << name << ", step " << step;
    }
}

TEST(SketchedRules, whoIsAbsentCountsNothingWhateverItHolds) {
  for (const std::string_view name : rules()) {
    Together expected(name, sketch(), 3);
    std::vector<oracle::Vector> wanted;
    const std::vector<bool> all, some{true, false, true};
    for (std::int64_t step = 0; step < 5; ++step)
      wanted.push_back(
          expected.step({kHealthy(0, step), kHealthy(1, step), kHealthy(2, step)}, step == 2 ? some : all));
    test::on_threads(3, [&](runtime::Context& context) {
      Member member(context, name, sketch(), kSize);
      for (std::int64_t step = 0; step < 5; ++step) {
        Floats gradient = kHealthy(member.rank, step);
        if (step == 2 && member.rank == 1) std::ranges::fill(gradient, kNan);
        member.algorithm->attend(step == 2 ? some : all);
        expect_near(member.finish_overlapped(gradient), wanted[static_cast<std::size_t>(step)]);
      }
    });
  }
}

TEST(SketchedRules, tellOfTheStepBefore) {
  test::on_threads(4, [&](runtime::Context& context) {
    Member member(context, "direction_consensus", sketch(), kSize);
    EXPECT_TRUE(member.algorithm->report()->statistics.q.empty());
    for (std::int64_t step = 0; step < 5; ++step) {
      Floats gradient = kHealthy(member.rank, step);
      if (member.rank == 3) multiply(gradient, step == 3 ? -2000.0f : -1.0f);
      member.finish_overlapped(gradient);
    }
    const GradientReport& report = *member.algorithm->report();  // of step 3
    ASSERT_EQ(report.clipped.size(), 4u);
    EXPECT_EQ(report.coefficients[3], 0) << "it points away";
    EXPECT_FALSE(report.clipped[3]) << "and so needs no guard";
    EXPECT_GT(std::sqrt(report.statistics.q[3]), 1000 * std::sqrt(report.statistics.q[0]));
    EXPECT_LT(math::agreement(report.statistics)[3], -0.2);
    EXPECT_GT(math::agreement(report.statistics)[0], 0);
  });
}

TEST(SketchedRules, refuseASketchLongerThanTheModel) {
  test::on_threads(2, [](runtime::Context& context) {
    EXPECT_NE(test::refusal([&] {
                Member(context, "adacons", sketch({{"sketch_length", "512"}}), kSize);
              }).find("512"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace flockstep::algorithms::sketched_rule_test
