// Every gradient rule through the whole path, against implementations on vectors that know nothing of Gram matrices.
#include "algorithms/rules/gradient_rule.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "gradients.h"
#include "support/refusal.h"

namespace flockstep::algorithms::gradient_rule_test {
namespace {

using namespace rule_tests;

// Rules whose results have a norm that has nothing to do with that of the gradients.
const std::vector<std::string_view> kOfDirections{"normalized_mean", "adacons", "direction_consensus",
                                                  "geometric_median"};
// Rules that can do without the matrix of all pairs of gradients.
const std::vector<std::string_view> kOfRowSums{"normalized_mean", "adacons"};

// Subnormal numbers, the smallest normal ones, where squares vanish, where they overflow, and numbers that few can be
// added of.
const std::vector<float> kScales{1e-42f, 2e-38f, 1e-23f, 1e19f, 2e37f};

struct Case {
  const char* name;
  base::Settings settings = {};
  std::vector<int> workers = {4};
  std::vector<std::size_t> sizes = {150};
  std::vector<float> scales = {1, 2e-38f, 1e-23f, 1e19f, 1e37f};
  std::vector<std::string_view> of = rules();
  double tolerance = 2e-5;
};

TEST(GradientRules, giveWhatTheirPlainFormOnVectorsGives) {
  const std::vector<float> one{1}, for_many{1, 2e-38f, 1e-23f, 1e17f, 1e37f};
  const std::vector<std::string_view> without_matrix{"mean", "normalized_mean", "adacons"};
  const Case cases[] = {
      {"any workers and length", {}, {1, 2, 3, 5, 8, 9}, {3, 100, 257}, one},
      {"any size of numbers", {}, {1, 2, 3, 4, 9}, {150}, kScales},
      {"norm of the mean", {{"magnitude", "mean_norm"}}},
      {"norm of the median worker", {{"magnitude", "median_norm"}}, {4, 5}},
      {"matched norms", {{"magnitude", "matched"}}, {4}, {150}, one, kOfDirections},
      {"half the bytes on the wire",
       {{"wire", "bfloat16"}},
       {4},
       {500},
       {1, 2e-38f, 1e-23f, 1e19f, 5e37f},
       rules(),
       0.03},
      {"linear sweep", {}, {70}, {200}, for_many, without_matrix},
      {"linear sweep, exclude", {{"non_finite", "exclude"}}, {70}, {200}, for_many, without_matrix},
      {"linear sweep, norm of the mean", {{"magnitude", "mean_norm"}}, {70}, {200}, for_many, kOfRowSums},
      {"linear sweep, norm of the median worker", {{"magnitude", "median_norm"}}, {70}, {200}, for_many, kOfRowSums},
      {"linear sweep, matched norms", {{"magnitude", "matched"}}, {70}, {200}, one, kOfRowSums},
  };
  for (const Case& each : cases)
    for (const std::string_view name : each.of)
      for (const int workers : each.workers)
        for (const std::size_t size : each.sizes)
          for (const float scale : each.scales) {
            SCOPED_TRACE(testing::Message() << each.name << " at " << scale);
            expect_plain_form(workers, name, each.settings, 3, healthy(size, scale), each.tolerance,
                              [&](Member& member) {
                                const GradientReport& report = *member.algorithm->report();
                                EXPECT_EQ(report.event, math::Event::none);
                                EXPECT_TRUE(workers <= 64 || !report.statistics.has_matrix());
                              });
          }
}

TEST(GradientRules, whoIsAbsentIsLeftOutWhateverItSends) {
  for (const std::string_view name : rules())
    for (const int workers : {2, 4, 70}) {
      if (workers == 70 && name != "mean" && name != "adacons") continue;  // row sums without a matrix
      std::mutex mutex;
      std::set<Floats> last;
      test::on_threads(workers, [&](runtime::Context& context) {
        Member member(context, name, {{"watch", "always"}});
        Oracle expected(name);
        std::vector<bool> present(member.workers, true);
        present.back() = false;
        member.algorithm->attend(present);
        auto gradient = gradient_of(member.rank, 0, 100);
        if (!present[member.rank]) std::ranges::fill(gradient, kNan);
        expect_near(member.finish_overlapped(gradient), expected.step(gradients_of(member.workers - 1, 0, 100)));
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

// Tensors lie at both ends of the range of floats.
TEST(GradientRules, weighEachTensorOrBucketOnItsOwnWhenAsked) {
  const std::vector<std::size_t> tensors{30, 90, 7, 50};
  const std::vector<float> scales{1, 1e19f, 1e-23f, 1e-42f};
  const Sends sends = [&](std::size_t rank, std::int64_t step) {
    Floats all;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      for (const float value : gradient_of(rank, step + 10 * static_cast<int>(i), tensors[i], scales[i]))
        all.push_back(value);
    return all;
  };
  for (const std::string_view name : rules())
    for (const std::string granularity : {"tensor", "bucket"})
      test::on_threads(4, [&](runtime::Context& context) {
        Member member(context, name, {{"granularity", granularity}}, tensors, 90);
        const auto& sections = granularity == "tensor" ? member.layout.tensors() : member.layout.buckets();
        std::vector<Oracle> expected(sections.size(), Oracle(name));
        for (std::int64_t step = 0; step < 3; ++step) {
          const Floats values = member.finish(sends(member.rank, step));
          const auto gradients = gradients_of(4, step, sends);
          for (std::size_t section = 0; section < sections.size(); ++section) {
            const auto begin = static_cast<std::ptrdiff_t>(sections[section].begin),
                       end = static_cast<std::ptrdiff_t>(sections[section].end());
            oracle::Gradients parts;
            for (const auto& gradient : gradients) parts.emplace_back(gradient.begin() + begin, gradient.begin() + end);
            expect_near(sections[section].of(std::span<const float>(values)), expected[section].step(parts));
          }
        }
        // What is reported is about the whole gradient all the same.
        const auto& statistics = member.algorithm->report()->statistics;
        if (statistics.has_matrix()) {
          const auto gradients = gradients_of(4, 2, sends);
          EXPECT_NEAR(statistics.at(1, 3) / oracle::dot(gradients[1], gradients[3]), 1, 1e-5);
        }
      });
}

TEST(GradientRules, reduceScatterGivesEachWorkerItsPartOfTheSameResult) {
  for (const std::string_view name : rules())
    for (const base::Settings& settings : {base::Settings{},
                                           {{"granularity", "bucket"}},
                                           {{"granularity", "tensor"}},
                                           {{"transfer", "sketch"}, {"guard", "3"}}})
      for (const int workers : {1, 3, 4})
        for (const std::size_t size : {2, 101})
          test::on_threads(workers, [&](runtime::Context& context) {
            Member scattered(context, name, settings, size), everywhere(context, name, settings, size);
            for (std::int64_t step = 0; step < 4; ++step) {
              Floats gradient = gradient_of(scattered.rank, step, size);
              const auto own = scattered.algorithm->reduce_scatter(gradient, weight_of(scattered.rank));
              const Floats whole = everywhere.step(step);
              const auto begin = static_cast<std::size_t>(own.data() - gradient.data());
              const bool is_sketched = settings.contains("transfer");  // with parts of its own
              const base::Partition parts(size, scattered.workers);
              EXPECT_TRUE(is_sketched || begin == parts.begin(scattered.rank));
              EXPECT_TRUE(is_sketched || own.size() == parts.size(scattered.rank));
              for (std::size_t k = 0; k < own.size(); ++k) ASSERT_NEAR(own[k], whole[begin + k], 1e-5) << name;
            }
          });
}

TEST(GradientRules, tensorsWithoutNumbersAreNoEvent) {
  for (const std::string_view name : rules())
    for (const auto& tensors : {std::vector<std::size_t>{}, {0}, {5, 0, 3}})
      test::on_threads(3, [&](runtime::Context& context) {
        Member member(context, name, {{"granularity", "tensor"}, {"magnitude", "median_norm"}}, tensors, 4);
        EXPECT_TRUE(all_finite(member.step(0)));
        EXPECT_EQ(member.algorithm->report()->event, math::Event::none) << name;
      });
}

TEST(GradientRules, lookingOnChangesNoBitOfAMean) {
  for (const float scale : {1.0f, 1e19f, 1e-25f})  // beyond what sums of squares can hold, too
    test::on_threads(3, [&](runtime::Context& context) {
      Member blind(context, "mean", {}), looking(context, "mean", {{"watch", "always"}});
      const Floats gradient = gradient_of(blind.rank, 0, 100, scale);
      EXPECT_EQ(looking.finish(gradient), blind.finish(gradient));
    });
}

// One tensor spikes on worker 1 and the other is zero on worker 2. Each worker's gradient would else be (1, ..., 1).
TEST(GradientRules, matchNormsOfEveryTensorBucketOrModelOnItsOwn) {
  for (const std::string_view name : kOfDirections)
    for (const std::string granularity : {"model", "bucket", "tensor"})
      for (const float spike : {1000.0f, 0.001f})
        test::on_threads(5, [&](runtime::Context& context) {
          Member member(context, name, {{"granularity", granularity}, {"magnitude", "matched"}}, {30, 90}, 50);
          Floats values(120, 1);
          const std::span<float> first(values.data(), 30), second(values.data() + 30, 90);
          if (context.rank() == 1)
            for (float& value : first) value = spike;
          if (context.rank() == 2) std::ranges::fill(second, 0.0f);
          member.algorithm->finish_gradient(values, 1);
          EXPECT_EQ(member.algorithm->guards().unsafe, 0) << name;
          const double length = oracle::norm({values.begin(), values.end()}) / std::sqrt(120);
          EXPECT_GT(length, 0.5) << name << " by " << granularity;
          EXPECT_LT(length, 1.001) << name << " by " << granularity;
          for (const float value : granularity == "tensor" ? values : Floats())
            EXPECT_NEAR(value, 0.8f, 0.201f) << name;
        });
}

TEST(GradientRules, giveTheMeanOfOneNumberWhereWorkersDisagree) {
  for (const int workers : {2, 66})  // 66: on the linear sweep
    for (const std::string_view name : workers == 2 ? kOfDirections : kOfRowSums)
      for (const std::string magnitude : {"own", "mean_norm", "median_norm", "matched"})
        for (const float scale : {1.0f, 0.1f, 0.7f})
          test::on_threads(workers, [&](runtime::Context& context) {
            Member member(context, name, {{"granularity", "tensor"}, {"magnitude", magnitude}}, {30, 1, 7}, 50);
            Floats values = gradient_of(member.rank, 0, member.layout.size());
            values[30] = scale * (member.rank % 2 == 0 ? 3.0f : -1.0f);
            member.algorithm->finish_gradient(values, 1);
            EXPECT_NEAR(values[30], scale, 1e-6f * scale) << name << ", " << magnitude;
            EXPECT_EQ(member.algorithm->guards().unsafe, 1) << name;
            EXPECT_EQ(member.algorithm->report()->event, math::Event::unsafe);
          });
}

TEST(GradientRules, weighOneWorkerFarAboveOrBelowTheOthersAsAnyOther) {
  for (const std::string_view name : rules())
    for (const float scale : kScales)
      for (const std::string non_finite : {"propagate", "exclude"}) {
        SCOPED_TRACE(scale);
        const auto sends = spoilt(healthy(150), 1, [&](Floats& gradient, std::int64_t) { multiply(gradient, scale); });
        expect_plain_form(3, name, {{"non_finite", non_finite}}, 1, sends);
      }
}

// There the matrix is too coarse to tell the norm of the result, and it is measured.
TEST(GradientRules, takeTheMagnitudeEvenWhereGradientsNearlyCancel) {
  test::on_threads(2, [](runtime::Context& context) {
    Member member(context, "mean", {{"magnitude", "median_norm"}});
    auto gradient = gradient_of(0, 0, 100);
    const auto nudge = gradient_of(1, 0, 100);
    for (std::size_t k = 0; k < 100; ++k)
      gradient[k] = member.rank == 0 ? gradient[k] + 2e-4f * nudge[k] : -gradient[k];
    const double wanted = oracle::norm({gradient.begin(), gradient.end()});
    const auto values = member.finish(gradient);
    EXPECT_NEAR(oracle::norm({values.begin(), values.end()}) / wanted, 1, 1e-3);
  });
}

TEST(WeightedMean, whoHasNoSamplesDoesNotCountWhateverItsGradientHolds) {
  test::on_threads(3, [](runtime::Context& context) {
    Member member(context, "weighted_mean", {}, 10);
    Floats gradient(10, member.rank == 1 ? kNan : static_cast<float>(member.rank));
    member.algorithm->finish_gradient(gradient, member.rank == 1 ? 0.0 : member.rank == 0 ? 3.0 : 1.0);
    EXPECT_EQ(gradient, Floats(10, 0.5f));  // (3 * 0 + 1 * 2) / 4
  });
}

TEST(WeightedMean, withoutAnySamplesTheDirectionsAreAveragedAndItIsCounted) {
  test::on_threads(3, [](runtime::Context& context) {
    Member member(context, "weighted_mean", {});
    Floats gradient = gradient_of(member.rank, 0, 100);
    member.algorithm->finish_gradient(gradient, 0.0);
    expect_near(gradient, oracle::normalized_mean(gradients_of(3, 0, 100), kEps));
    EXPECT_EQ(member.algorithm->guards().unsafe, 1);
  });
}

TEST(WeightedMean, aWeightThatCountsNothingIsRefusedEverywhere) {
  for (const double wrong : {-1.0, static_cast<double>(kNan), static_cast<double>(kInfinity)})
    test::on_threads(3, [&](runtime::Context& context) {
      Member member(context, "weighted_mean", {}, 10);
      Floats gradient(10);
      member.algorithm->bucket_ready(0, gradient);
      const double weight = member.rank == 1 ? wrong : 1.0;
      const auto sentence = test::refusal([&] { member.algorithm->finish_gradient(gradient, weight); });
      EXPECT_TRUE(sentence.starts_with("worker 1 counts")) << sentence;
      std::ranges::fill(gradient, static_cast<float>(member.rank));
      member.algorithm->finish_gradient(gradient, 1);  // and the next step goes on
      EXPECT_EQ(gradient, Floats(10, 1.0f));
    });
}

TEST(AdaCons, extraMemoryIsBelowOneGradient) {
  for (const std::string wire : {"float32", "bfloat16"})
    for (const int workers : {2, 4, 8})
      test::on_threads(workers, [&](runtime::Context& context) {
        constexpr std::size_t kSize = 100000;
        Member member(context, "adacons", {{"wire", wire}}, kSize, 20000);
        member.step(0);
        EXPECT_LE(context.engine().memory().held_bytes(), kSize * sizeof(float));
        EXPECT_GE(context.engine().memory().held_bytes(), kSize * sizeof(float) / 4);
      });
}

// What dividing by a square that has overflowed or vanished breaks first.
TEST(AdasumStability, equalGradientsAreTheirOwnResultAtAnySize) {
  for (const int workers : {2, 3, 4})
    for (const float scale : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(), 1e-23f,
                              1e19f, std::numeric_limits<float>::max() / 2}) {
      const Floats own = gradient_of(0, 0, 150, scale);
      const auto results = results_of(workers, "adasum", {}, 1, [&](std::size_t, std::int64_t) { return own; });
      expect_near(results[0], {own.begin(), own.end()}, 1e-6);
    }
}

TEST(AdasumStability, aHugeAndATinyGradientAddUpToTheHugeOne) {
  for (const int workers : {2, 3, 4}) {
    const Sends sends = [](std::size_t rank, std::int64_t) {
      return gradient_of(rank, 0, 150, rank == 1 ? 5e37f : 1e-38f);
    };
    const Floats huge = sends(1, 0);
    expect_near(results_of(workers, "adasum", {}, 1, sends)[0], {huge.begin(), huge.end()}, 1e-6);
  }
}

}  // namespace
}  // namespace flockstep::algorithms::gradient_rule_test
