// Every gradient rule through the whole path, against implementations on vectors that know nothing of Gram matrices.
#include "algorithms/rules/gradient_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "base/random.h"
#include "gradients.h"
#include "math/oracle.h"
#include "support/on_threads.h"

namespace flockstep::algorithms::gradient_rule_test {
namespace {

namespace oracle = math::oracle;
constexpr double kEps = 1e-8;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Worker i's gradient of a step: a shared direction and noise of its own, at norms that differ.
std::vector<float> gradient_of(std::size_t rank, std::int64_t step, std::size_t size) {
  std::vector<float> shared(size), own(size);
  base::Random(5, base::Purpose::test, 999, static_cast<std::uint32_t>(step)).fill_uniform(shared, -1, 1);
  base::Random(5, base::Purpose::test, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step))
      .fill_uniform(own, -1, 1);
  for (std::size_t k = 0; k < size; ++k) own[k] = (shared[k] + own[k]) * (1 + 0.3f * static_cast<float>(rank % 5));
  return own;
}

oracle::Gradients gradients_of(std::size_t workers, std::int64_t step, std::size_t size) {
  oracle::Gradients all;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    const auto floats = gradient_of(rank, step, size);
    all.emplace_back(floats.begin(), floats.end());
  }
  return all;
}

// The named rule on vectors, step after step.
struct Oracle {
  explicit Oracle(std::string_view name) : name(name) {}
  oracle::Vector step(const oracle::Gradients& gradients) {
    std::vector<double> weights;
    for (std::size_t rank = 0; rank < gradients.size(); ++rank) weights.push_back(weight_of(rank));
    if (name == "mean") return oracle::mean(gradients);
    if (name == "weighted_mean") return oracle::weighted_mean(gradients, weights);
    if (name == "normalized_mean") return oracle::normalized_mean(gradients, kEps);
    if (name == "adacons") return adacons.step(gradients);
    if (name == "adasum") return oracle::adasum(gradients);
    if (name == "direction_consensus") return consensus.step(gradients);
    return oracle::geometric_median_of_directions(gradients, 10, kEps);
  }
  std::string_view name;
  oracle::AdaCons adacons{.beta = 0.99, .eps = kEps};
  oracle::DirectionConsensus consensus{.beta = 0.9, .eps = kEps};
};

void expect_near(std::span<const float> values, const oracle::Vector& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  const double scale = oracle::norm(expected) / std::sqrt(static_cast<double>(expected.size() + 1));
  for (std::size_t k = 0; k < values.size(); ++k) ASSERT_NEAR(values[k], expected[k], tolerance * scale) << k;
}

// One worker with its algorithm.
struct Member {
  Member(runtime::Context& context, std::string_view name, const base::Settings& settings, std::size_t size = 100,
         std::size_t bucket_floats = 32)
      : rank(static_cast<std::size_t>(context.rank())),
        workers(static_cast<std::size_t>(context.size())),
        layout(size, bucket_floats),
        algorithm(find_algorithm(name).make({context, layout, settings})) {}

  std::vector<float> finish(std::vector<float> gradient) {
    algorithm->finish_gradient(gradient, weight_of(rank));
    return gradient;
  }
  std::vector<float> finish_overlapped(std::vector<float> gradient) {
    for (std::size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) algorithm->bucket_ready(bucket, gradient);
    return finish(std::move(gradient));
  }
  std::vector<float> step(std::int64_t step) { return finish(gradient_of(rank, step, layout.size())); }

  std::size_t rank, workers;
  runtime::Layout layout;
  std::unique_ptr<Algorithm> algorithm;
};

TEST(GradientRules, giveWhatTheirPlainFormOnVectorsGivesForAnyWorkersAndLength) {
  for (const std::string_view name : rules())
    for (const int workers : {1, 2, 3, 5, 8, 9})
      for (const std::size_t size : {3, 100, 257}) {
        std::mutex mutex;
        std::set<std::vector<float>> last;
        test::on_threads(workers, [&](runtime::Context& context) {
          Member member(context, name, {}, size);
          Oracle expected(name);
          std::vector<float> values;
          for (std::int64_t step = 0; step < 4; ++step) {
            values = step % 2 == 0 ? member.step(step) : member.finish_overlapped(gradient_of(member.rank, step, size));
            expect_near(values, expected.step(gradients_of(member.workers, step, size)), 2e-5);
          }
          const std::lock_guard lock(mutex);
          last.insert(values);
        });
        EXPECT_EQ(last.size(), 1u) << name << " leaves workers on different bits";
      }
}

TEST(GradientRules, whoIsAbsentIsLeftOutWhateverItSends) {
  for (const std::string_view name : rules())
    for (const int workers : {2, 4, 70}) {
      if (workers == 70 && name != "mean" && name != "adacons") continue;  // row sums without a matrix
      std::mutex mutex;
      std::set<std::vector<float>> last;
      test::on_threads(workers, [&](runtime::Context& context) {
        Member member(context, name, {{"watch", "always"}});
        Oracle expected(name);
        std::vector<bool> present(member.workers, true);
        present.back() = false;
        member.algorithm->attend(present);
        auto gradient = gradient_of(member.rank, 0, 100);
        if (!present[member.rank]) std::ranges::fill(gradient, kNan);
        expect_near(member.finish_overlapped(gradient), expected.step(gradients_of(member.workers - 1, 0, 100)), 2e-5);
        EXPECT_EQ(member.algorithm->report()->event, math::Event::none) << name;
        EXPECT_EQ(member.algorithm->report()->coefficients.back(), 0) << name;

        member.algorithm->attend({});
        const auto values = member.step(1);
        EXPECT_NE(member.algorithm->report()->coefficients.back(), 0) << name;
        EXPECT_EQ(member.algorithm->guards().non_finite, 0) << name;
        const std::lock_guard lock(mutex);
        last.insert(values);
      });
      EXPECT_EQ(last.size(), 1u) << name << " leaves workers on different bits";
    }
}

TEST(GradientRules, postLocalSgdLeavesThemOutOfItsGradients) {
  test::on_threads(3, [&](runtime::Context& context) {
    Member member(context, "post_local_sgd", {{"switch_after", "2"}});
    EXPECT_TRUE(member.algorithm->gradients_are_equal());
    member.algorithm->attend({true, true, false});
    std::vector<float> model(100);
    expect_near(member.step(0), oracle::mean(gradients_of(2, 0, 100)), 2e-5);
    member.algorithm->after_update(0, model);
    member.algorithm->after_update(1, model);
    EXPECT_FALSE(member.algorithm->gradients_are_equal());
  });
}

TEST(GradientRules, overlapChangesNoBit) {
  for (const std::string_view name : rules())
    test::on_threads(4, [&](runtime::Context& context) {
      Member plain(context, name, {}), overlapped(context, name, {});
      for (std::int64_t step = 0; step < 3; ++step) {
        const auto gradient = gradient_of(plain.rank, step, 100);
        EXPECT_EQ(plain.finish(gradient), overlapped.finish_overlapped(gradient)) << name;
      }
    });
}

TEST(GradientRules, aboveSixtyFourWorkersRowSumsComeFromTheLinearSweepWithTheSameResult) {
  for (const std::string_view name : {"normalized_mean", "adacons"})
    for (const std::string magnitude : {"own", "mean_norm", "median_norm", "matched"}) {
      constexpr std::size_t kWorkers = 70, kSize = 200;
      test::on_threads(kWorkers, [&](runtime::Context& context) {
        const base::Settings settings{{"magnitude", magnitude}};
        Member member(context, name, settings, kSize, 80);
        Oracle expected(name);
        for (std::int64_t step = 0; step < 2; ++step) {
          const auto values = member.step(step);
          const auto gradients = gradients_of(kWorkers, step, kSize);
          auto result = expected.step(gradients);
          if (magnitude == "matched")
            result = oracle::scaled(oracle::lower_median_norm(gradients), result);
          else if (magnitude != "own")
            result = oracle::scaled(
                (magnitude == "mean_norm" ? oracle::mean_norm(gradients) : oracle::median_norm(gradients)) /
                    oracle::norm(result),
                result);
          expect_near(values, result, 2e-5);
          EXPECT_FALSE(member.algorithm->report()->statistics.has_matrix());
        }
      });
    }
}

TEST(GradientRules, takeTheMagnitudeThatWasAskedFor) {
  for (const std::string_view name : rules())
    for (const std::string magnitude : {"mean_norm", "median_norm"})
      test::on_threads(5, [&](runtime::Context& context) {
        const base::Settings settings{{"magnitude", magnitude}};
        Member member(context, name, settings);
        const auto values = member.step(0);
        const auto gradients = gradients_of(5, 0, 100);
        const double wanted = magnitude == "mean_norm" ? oracle::mean_norm(gradients) : oracle::median_norm(gradients);
        EXPECT_NEAR(oracle::norm({values.begin(), values.end()}) / wanted, 1, 1e-5) << name;
      });
}

TEST(GradientRules, weighEachTensorOrBucketOnItsOwnWhenAsked) {
  for (const std::string_view name : rules())
    for (const std::string granularity : {"tensor", "bucket"})
      test::on_threads(4, [&](runtime::Context& context) {
        const std::vector<std::size_t> tensors{30, 90, 7};
        const runtime::Layout layout(tensors, 50);
        const base::Settings settings{{"granularity", granularity}};
        const auto algorithm = find_algorithm(name).make({context, layout, settings});
        const auto& sections = granularity == "tensor" ? layout.tensors() : layout.buckets();
        std::vector<Oracle> expected(sections.size(), Oracle(name));
        for (std::int64_t step = 0; step < 3; ++step) {
          auto values = gradient_of(static_cast<std::size_t>(context.rank()), step, layout.size());
          algorithm->finish_gradient(values, weight_of(static_cast<std::size_t>(context.rank())));
          const auto gradients = gradients_of(4, step, layout.size());
          for (std::size_t section = 0; section < sections.size(); ++section) {
            const auto begin = static_cast<std::ptrdiff_t>(sections[section].begin),
                       end = static_cast<std::ptrdiff_t>(sections[section].end());
            oracle::Gradients parts;
            for (const auto& gradient : gradients) parts.emplace_back(gradient.begin() + begin, gradient.begin() + end);
            expect_near(sections[section].of(std::span<const float>(values)), expected[section].step(parts), 2e-5);
          }
        }
        // What is reported is about the whole gradient all the same.
        const auto& statistics = algorithm->report()->statistics;
        if (statistics.has_matrix()) {
          const auto gradients = gradients_of(4, 2, layout.size());
          EXPECT_NEAR(statistics.at(1, 3) / oracle::dot(gradients[1], gradients[3]), 1, 1e-5);
        }
      });
}

TEST(GradientRules, reduceScatterGivesEachWorkerItsPartOfTheSameResult) {
  for (const std::string_view name : rules())
    for (const std::string granularity : {"model", "bucket", "tensor"})
      for (const int workers : {1, 3, 4})
        for (const std::size_t size : {2, 101})
          test::on_threads(workers, [&](runtime::Context& context) {
            const base::Settings settings{{"granularity", granularity}};
            Member scattered(context, name, settings, size), everywhere(context, name, settings, size);
            for (std::int64_t step = 0; step < 2; ++step) {
              auto gradient = gradient_of(scattered.rank, step, size);
              const auto own = scattered.algorithm->reduce_scatter(gradient, weight_of(scattered.rank));
              const auto whole = everywhere.step(step);
              const base::Partition parts(size, scattered.workers);
              ASSERT_EQ(own.size(), parts.size(scattered.rank));
              EXPECT_EQ(own.data(), gradient.data() + parts.begin(scattered.rank));
              for (std::size_t k = 0; k < own.size(); ++k)
                ASSERT_NEAR(own[k], whole[parts.begin(scattered.rank) + k], 1e-5) << name << ", " << granularity;
            }
          });
}

TEST(GradientRules, tensorsWithoutNumbersAreNoEvent) {
  for (const std::string_view name : rules())
    for (const auto& tensors : {std::vector<std::size_t>{}, {0}, {5, 0, 3}})
      test::on_threads(3, [&](runtime::Context& context) {
        const runtime::Layout layout(tensors, 4);
        const base::Settings settings{{"granularity", "tensor"}, {"magnitude", "median_norm"}};
        const auto algorithm = find_algorithm(name).make({context, layout, settings});
        auto gradient = gradient_of(static_cast<std::size_t>(context.rank()), 0, layout.size());
        algorithm->finish_gradient(gradient, 1);
        EXPECT_EQ(algorithm->report()->event, math::Event::none) << name;
        for (const float value : gradient) EXPECT_TRUE(std::isfinite(value));
      });
}

TEST(GradientRules, lookingOnChangesNoBitOfAMean) {
  for (const float scale : {1.0f, 1e19f, 1e-25f})  // beyond what sums of squares can hold, too
    test::on_threads(3, [&](runtime::Context& context) {
      const base::Settings watching{{"watch", "always"}}, none;
      Member blind(context, "mean", none), looking(context, "mean", watching);
      auto gradient = gradient_of(blind.rank, 0, 100);
      for (float& value : gradient) value *= scale;
      EXPECT_EQ(looking.finish(gradient), blind.finish(gradient));
    });
}

// One tensor spikes on worker 1 and the other is zero on worker 2. Each worker's gradient would else be (1, ..., 1).
TEST(GradientRules, matchNormsOfEveryTensorBucketOrModelOnItsOwn) {
  for (const std::string_view name : {"normalized_mean", "adacons", "direction_consensus", "geometric_median"})
    for (const std::string granularity : {"model", "bucket", "tensor"})
      for (const float spike : {1000.0f, 0.001f})
        test::on_threads(5, [&](runtime::Context& context) {
          const std::vector<std::size_t> tensors{30, 90};
          const runtime::Layout layout(tensors, 50);
          const base::Settings settings{{"granularity", granularity}, {"magnitude", "matched"}};
          const auto algorithm = find_algorithm(name).make({context, layout, settings});
          std::vector<float> values(120, 1);
          const std::span<float> first(values.data(), 30), second(values.data() + 30, 90);
          if (context.rank() == 1)
            for (float& value : first) value = spike;
          if (context.rank() == 2) std::ranges::fill(second, 0.0f);
          algorithm->finish_gradient(values, 1);
          EXPECT_EQ(algorithm->guards().unsafe, 0) << name;
          const double length = oracle::norm({values.begin(), values.end()}) / std::sqrt(120);
          EXPECT_GT(length, 0.5) << name << " by " << granularity;
          EXPECT_LT(length, 1.001) << name << " by " << granularity;
          for (const float value : granularity == "tensor" ? values : std::vector<float>())
            EXPECT_NEAR(value, 0.8f, 0.201f) << name;
        });
}

TEST(GradientRules, giveTheMeanOfOneNumberWhereTwoWorkersDisagree) {
  for (const std::string_view name : {"normalized_mean", "adacons", "direction_consensus", "geometric_median"})
    for (const std::string magnitude : {"own", "mean_norm", "median_norm", "matched"})
      for (const float scale : {1.0f, 0.1f, 0.7f})
        test::on_threads(2, [&](runtime::Context& context) {
          const std::vector<std::size_t> tensors{30, 1, 7};
          const runtime::Layout layout(tensors, 50);
          const base::Settings settings{{"granularity", "tensor"}, {"magnitude", magnitude}};
          const auto algorithm = find_algorithm(name).make({context, layout, settings});
          auto values = gradient_of(static_cast<std::size_t>(context.rank()), 0, layout.size());
          values[30] = scale * (context.rank() == 0 ? 3.0f : -1.0f);
          algorithm->finish_gradient(values, 1);
          EXPECT_NEAR(values[30], scale, 1e-6f * scale) << name << ", " << magnitude;
          EXPECT_EQ(algorithm->guards().unsafe, 1) << name;
          EXPECT_EQ(algorithm->report()->event, math::Event::unsafe);
        });
}

TEST(GradientRules, giveTheMeanOfOneNumberOnTheLinearSweepToo) {
  for (const std::string_view name : {"normalized_mean", "adacons"})
    test::on_threads(66, [&](runtime::Context& context) {
      const std::vector<std::size_t> tensors{1, 3};
      const runtime::Layout layout(tensors, 50);
      const base::Settings settings{{"granularity", "tensor"}, {"magnitude", "matched"}};
      const auto algorithm = find_algorithm(name).make({context, layout, settings});
      std::vector<float> values(4, 1.0f);
      values[0] = context.rank() % 2 == 0 ? 0.3f : -0.1f;
      algorithm->finish_gradient(values, 1);
      EXPECT_NEAR(values[0], 0.1f, 1e-6f) << name;
      EXPECT_NEAR(values[1], 1, 1e-6f) << name;
      EXPECT_FALSE(algorithm->report()->statistics.has_matrix());
    });
}

TEST(GradientRules, adasumHasNothingToMatch) {
  try {
    find_algorithm("adasum").check({{"magnitude", "matched"}}, 4);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("--adasum.magnitude takes own, mean_norm or median_norm"),
              std::string::npos);
  }
}

// There the matrix is too coarse to tell the norm of the result, and it is measured.
TEST(GradientRules, takeTheMagnitudeEvenWhereGradientsNearlyCancel) {
  test::on_threads(2, [](runtime::Context& context) {
    const base::Settings settings{{"magnitude", "median_norm"}};
    Member member(context, "mean", settings);
    auto gradient = gradient_of(0, 0, 100);
    const auto nudge = gradient_of(1, 0, 100);
    for (std::size_t k = 0; k < 100; ++k)
      gradient[k] = member.rank == 0 ? gradient[k] + 2e-4f * nudge[k] : -gradient[k];
    const double wanted = oracle::norm({gradient.begin(), gradient.end()});
    const auto values = member.finish(gradient);
    EXPECT_NEAR(oracle::norm({values.begin(), values.end()}) / wanted, 1, 1e-3);
  });
}

TEST(GradientRules, bfloat16OnTheWireStaysCloseAndLeavesEverybodyOnTheSameBits) {
  for (const std::string_view name : rules()) {
    std::mutex mutex;
    std::set<std::vector<float>> results;
    test::on_threads(4, [&](runtime::Context& context) {
      const base::Settings settings{{"wire", "bfloat16"}};
      Member member(context, name, settings, 500);
      Oracle expected(name);
      const auto values = member.step(0);
      expect_near(values, expected.step(gradients_of(4, 0, 500)), 0.03);
      const std::lock_guard lock(mutex);
      results.insert(values);
    });
    EXPECT_EQ(results.size(), 1u);
  }
}

TEST(WeightedMean, whoHasNoSamplesDoesNotCountWhateverItsGradientHolds) {
  test::on_threads(3, [](runtime::Context& context) {
    Member member(context, "weighted_mean", {}, 10);
    std::vector<float> gradient(10, member.rank == 1 ? kNan : static_cast<float>(member.rank));
    member.algorithm->finish_gradient(gradient, member.rank == 1 ? 0.0 : member.rank == 0 ? 3.0 : 1.0);
    EXPECT_EQ(gradient, std::vector<float>(10, 0.5f));  // (3 * 0 + 1 * 2) / 4
  });
}

TEST(WeightedMean, withoutAnySamplesTheDirectionsAreAveragedAndItIsCounted) {
  test::on_threads(3, [](runtime::Context& context) {
    Member member(context, "weighted_mean", {});
    auto gradient = gradient_of(member.rank, 0, 100);
    member.algorithm->finish_gradient(gradient, 0.0);
    expect_near(gradient, oracle::normalized_mean(gradients_of(3, 0, 100), kEps), 2e-5);
    EXPECT_EQ(member.algorithm->guards().unsafe, 1);
  });
}

TEST(WeightedMean, aWeightThatCountsNothingIsRefusedEverywhere) {
  for (const double wrong : {-1.0, static_cast<double>(kNan), std::numeric_limits<double>::infinity()})
    test::on_threads(3, [&](runtime::Context& context) {
      Member member(context, "weighted_mean", {}, 10);
      std::vector<float> gradient(10);
      try {
        member.algorithm->bucket_ready(0, gradient);
        member.algorithm->finish_gradient(gradient, member.rank == 1 ? wrong : 1.0);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_EQ(std::string(error.what()).rfind("worker 1 counts", 0), 0u) << error.what();
      }
      std::ranges::fill(gradient, static_cast<float>(member.rank));
      member.algorithm->finish_gradient(gradient, 1);  // and the next step goes on
      EXPECT_EQ(gradient, std::vector<float>(10, 1.0f));
    });
}

TEST(AdaCons, extraMemoryIsBelowOneGradient) {
  for (const std::string wire : {"float32", "bfloat16"})
    for (const int workers : {2, 4, 8})
      test::on_threads(workers, [&](runtime::Context& context) {
        constexpr std::size_t kSize = 100000;
        const base::Settings settings{{"wire", wire}};
        Member member(context, "adacons", settings, kSize, 20000);
        member.step(0);
        EXPECT_LE(context.engine().memory().held_bytes(), kSize * sizeof(float));
        EXPECT_GE(context.engine().memory().held_bytes(), kSize * sizeof(float) / 4);
      });
}

}  // namespace
}  // namespace flockstep::algorithms::gradient_rule_test
