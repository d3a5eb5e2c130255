// Steps gone wrong, and what a resumed run remembers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "gradients.h"
#include "support/on_threads.h"

namespace flockstep::algorithms::guards_test {
namespace {

constexpr std::size_t kSize = 60;
const base::Settings kNone;

bool has_statistics(std::string_view name) { return name != "mean" && name != "weighted_mean"; }

std::vector<float> healthy(int rank, std::int64_t step) {
  std::vector<float> values(kSize);
  base::Random(9, base::Purpose::test, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step))
      .fill_uniform(values, 0.1f, 1);
  return values;
}

std::unique_ptr<Algorithm> make(runtime::Context& context, const runtime::Layout& layout, std::string_view name,
                                const base::Settings& settings = kNone) {
  return find_algorithm(name).make({context, layout, settings});
}

// Where a fault strikes: on one worker or on all, in the first step or in a later one.
struct Strike {
  bool on_all;
  std::int64_t step;
};
const std::vector<Strike> kStrikes{{false, 0}, {false, 2}, {true, 0}, {true, 2}};

TEST(Guards, aNonFiniteGradientMakesTheResultNonFiniteEverywhereAndLeavesNoTrace) {
  for (const std::string_view name : rules())
    for (const Strike strike : kStrikes)
      for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
        test::on_threads(3, [&](runtime::Context& context) {
          const runtime::Layout layout(kSize, 20);
          const auto struck = make(context, layout, name), untouched = make(context, layout, name);
          for (std::int64_t step = 0; step < 4; ++step) {
            auto values = healthy(context.rank(), step), expected = values;
            if (step == strike.step) {
              if (strike.on_all || context.rank() == 1) values[33] = bad;
              struck->finish_gradient(values, 1);
              EXPECT_FALSE(all_finite(values)) << name;
              continue;
            }
            struck->finish_gradient(values, 1);
            untouched->finish_gradient(expected, 1);
            EXPECT_EQ(values, expected) << name << ": the bad step has changed a later one";
          }
          EXPECT_EQ(struck->guards().non_finite, has_statistics(name) ? 1 : 0);  // else the training loop counts
        });
}

TEST(Guards, aNonFiniteWorkerCanBeLeftOut) {
  for (const std::string_view name : rules())
    for (const std::int64_t bad_step : {0, 2})
      test::on_threads(4, [&](runtime::Context& context) {
        const runtime::Layout layout(kSize, 20);
        const base::Settings settings{{"non_finite", "exclude"}};
        const auto algorithm = make(context, layout, name, settings);
        for (std::int64_t step = 0; step < 4; ++step) {
          auto values = healthy(context.rank(), step);
          if (step == bad_step && context.rank() == 1) values[33] = std::nanf("");
          algorithm->finish_gradient(values, 1);
          ASSERT_TRUE(all_finite(values)) << name;
          if (step == bad_step) {
            EXPECT_EQ(algorithm->report()->coefficients[1], 0) << name;
            EXPECT_EQ(algorithm->report()->event, math::Event::non_finite);
          }
          if (step == bad_step && name == "mean") {
            const float rest = (healthy(0, step)[33] + healthy(2, step)[33] + healthy(3, step)[33]) / 3;
            EXPECT_NEAR(values[33], rest, 1e-6);
          }
        }
        EXPECT_EQ(algorithm->guards().non_finite, 1) << name;
      });
}

TEST(Guards, aWorkerCanBeLeftOutOnTheLinearSweepToo) {
  test::on_threads(66, [](runtime::Context& context) {
    const runtime::Layout layout(kSize, 20);
    const base::Settings settings{{"non_finite", "exclude"}, {"magnitude", "mean_norm"}};
    const auto algorithm = make(context, layout, "adacons", settings);
    auto values = healthy(context.rank(), 0);
    if (context.rank() == 5) values[0] = std::nanf("");
    algorithm->finish_gradient(values, 1);
    EXPECT_TRUE(all_finite(values));
    EXPECT_EQ(algorithm->report()->coefficients[5], 0);
    double square = 0, mean_square = 0;
    for (std::size_t k = 0; k < kSize; ++k) {
      double mean = 0;
      for (int rank = 0; rank < 66; ++rank)
        if (rank != 5) mean += static_cast<double>(healthy(rank, 0)[k]) / 65;
      mean_square += mean * mean;
      square += static_cast<double>(values[k]) * values[k];
    }
    EXPECT_NEAR(square / mean_square, 1, 1e-5);
  });
}

// As where all overflow under a gradient scaler, which has to see that for as long as it lasts: beyond the patience,
// too.
TEST(Guards, whatIsFiniteOnNoWorkerHasNoFiniteResultHoweverLongThatLasts) {
  for (const std::string_view name : rules())
    for (const char* const non_finite : {"propagate", "exclude"})
      for (const char* const transfer : {"exact", "sketch"})
        test::on_threads(3, [&](runtime::Context& context) {
          const runtime::Layout layout(kSize, 20);
          const base::Settings settings{{"non_finite", non_finite}, {"transfer", transfer}};
          const auto algorithm = make(context, layout, name, settings);
          // With sketches a worker that excludes itself hears of the others one step later.
          const bool is_late = settings.at("non_finite") == "exclude" && settings.at("transfer") == "sketch";
          for (std::int64_t step = 0; step < 14; ++step) {
            auto values = healthy(context.rank(), step);
            if (step >= 2 && step < 12) values[static_cast<std::size_t>(context.rank())] = std::nanf("");
            algorithm->finish_gradient(values, 1);
            if (step == 2 && is_late) continue;
            EXPECT_EQ(all_finite(values), step < 2 || step >= 12)
                << name << ", " << non_finite << ", " << transfer << ", step " << step;
          }
        });
}

TEST(Guards, zeroGradientsGiveZeroAndLeaveNoTrace) {
  for (const std::string_view name : rules())
    for (const std::int64_t bad_step : {0, 2})
      test::on_threads(3, [&](runtime::Context& context) {
        const runtime::Layout layout(kSize, 20);
        const auto struck = make(context, layout, name), untouched = make(context, layout, name);
        for (std::int64_t step = 0; step < 4; ++step) {
          auto values = healthy(context.rank(), step), expected = values;
          if (step == bad_step) {
            std::ranges::fill(values, 0.0f);
            struck->finish_gradient(values, 1);
            EXPECT_EQ(values, std::vector<float>(kSize, 0.0f)) << name;
            continue;
          }
          struck->finish_gradient(values, 1);
          untouched->finish_gradient(expected, 1);
          EXPECT_EQ(values, expected) << name;
        }
        EXPECT_EQ(struck->guards().all_zero, has_statistics(name) ? 1 : 0);
      });
}

TEST(Guards, oneWorkerWithZerosIsNoEvent) {
  for (const std::string_view name : rules())
    test::on_threads(3, [&](runtime::Context& context) {
      const runtime::Layout layout(kSize, 20);
      const auto algorithm = make(context, layout, name);
      for (std::int64_t step = 0; step < 3; ++step) {
        auto values = healthy(context.rank(), step);
        if (context.rank() == 1) std::ranges::fill(values, 0.0f);
        algorithm->finish_gradient(values, 1);
        EXPECT_TRUE(all_finite(values)) << name;
        EXPECT_GT(std::abs(values[0]), 0.0f) << name;
      }
      EXPECT_EQ(algorithm->guards().all_zero + algorithm->guards().unsafe, 0) << name;
    });
}

// Two pairs of opposed gradients: the coefficients of adacons add up to nothing.
TEST(Guards, withoutSafeWeightsDirectionsAreAveragedAndMemoryStaysAsItWas) {
  for (const std::int64_t bad_step : {0, 2})
    test::on_threads(4, [&](runtime::Context& context) {
      const runtime::Layout layout(kSize, 20);
      const base::Settings settings{{"beta", "0"}};
      const auto struck = make(context, layout, "adacons", settings),
                 untouched = make(context, layout, "adacons", settings);
      for (std::int64_t step = 0; step < 4; ++step) {
        auto values = healthy(context.rank(), step), expected = values;
        if (step == bad_step) {
          values = healthy(context.rank() / 2, step);
          if (context.rank() % 2 == 1)
            for (float& value : values) value = -value;
          struck->finish_gradient(values, 1);
          EXPECT_TRUE(all_finite(values));
          for (const float value : values) EXPECT_NEAR(value, 0, 1e-6);
          EXPECT_EQ(struck->report()->event, math::Event::unsafe);
          continue;
        }
        struck->finish_gradient(values, 1);
        untouched->finish_gradient(expected, 1);
        EXPECT_EQ(values, expected);
      }
      EXPECT_EQ(struck->guards().unsafe, 1);
    });
}

TEST(RuleMemory, aRestoredRuleGoesOnToTheSameBits) {
  for (const std::string_view name : rules())
    for (const std::string granularity : {"model", "bucket"})
      test::on_threads(3, [&](runtime::Context& context) {
        const runtime::Layout layout(kSize, 20);
        const base::Settings settings{{"granularity", granularity}};
        const auto first = make(context, layout, name, settings);
        for (std::int64_t step = 0; step < 3; ++step) {
          auto values = healthy(context.rank(), step);
          if (step == 1) std::ranges::fill(values, 0.0f);
          first->finish_gradient(values, 1);
        }
        base::Archive archive;
        first->save(archive);
        const auto second = make(context, layout, name, settings);
        EXPECT_EQ(second->restore(archive), "");
        EXPECT_EQ(second->guards().all_zero, first->guards().all_zero);
        auto expected = healthy(context.rank(), 3), values = expected;
        first->finish_gradient(expected, 1);
        second->finish_gradient(values, 1);
        EXPECT_EQ(values, expected) << name;
      });
}

TEST(RuleMemory, anotherNumberOfWorkersReSamplesSortedMomentumAndSaysSo) {
  base::Archive archive;
  std::mutex mutex;
  const auto save_with = [&](std::string_view name) {
    test::on_threads(6, [&](runtime::Context& context) {
      const runtime::Layout layout(kSize, 20);
      const auto algorithm = make(context, layout, name);
      auto values = healthy(context.rank(), 0);
      algorithm->finish_gradient(values, 1);
      const std::lock_guard lock(mutex);
      if (context.rank() == 0) algorithm->save(archive);
    });
  };
  const auto note_of = [&](std::string_view name) {
    std::string note;
    test::on_threads(4, [&](runtime::Context& context) {
      const runtime::Layout layout(kSize, 20);
      const auto algorithm = make(context, layout, name);
      const std::string mine = algorithm->restore(archive);
      auto values = healthy(context.rank(), 1);
      algorithm->finish_gradient(values, 1);
      EXPECT_TRUE(all_finite(values));
      const std::lock_guard lock(mutex);
      note = mine;
    });
    return note;
  };
  save_with("adacons");
  const auto saved = archive.get_vector<double>("rule memory 0");
  EXPECT_EQ(saved.size(), 6u);
  EXPECT_EQ(note_of("adacons"), "the sorted momentum of 6 workers was re-sampled for 4");
  save_with("direction_consensus");
  EXPECT_EQ(note_of("direction_consensus"), "the memory of 6 workers does not fit 4: it starts anew");
  save_with("mean");
  EXPECT_EQ(note_of("mean"), "");
}

}  // namespace
}  // namespace flockstep::algorithms::guards_test
