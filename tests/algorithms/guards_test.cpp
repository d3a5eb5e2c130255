// Steps gone wrong, and what a resumed run remembers.
#include <gtest/gtest.h>

#include "gradients.h"

namespace flockstep::algorithms::guards_test {
namespace {

using namespace rule_tests;

constexpr std::size_t kSize = 60;

bool has_statistics(std::string_view name) { return name != "mean" && name != "weighted_mean"; }

Member member_of(runtime::Context& context, std::string_view name, const base::Settings& settings = {}) {
  return {context, name, settings, kSize, 20};
}

// What goes wrong in a step, on one worker or on all.
struct Fault {
  const char* name;
  std::function<void(Floats&, std::size_t rank)> strike;
  bool (*is_expected)(const Floats& result);
  std::int64_t GuardCounts::*counted;
  std::vector<std::string_view> of = rules();
  base::Settings settings = {};
};

std::vector<Fault> faults() {
  const auto is_not_finite = [](const Floats& result) { return !all_finite(result); };
  const auto is_zero = [](const Floats& result) {
    return std::ranges::all_of(result, [](float value) { return std::abs(value) < 1e-6f; });
  };
  const auto set_on_one = [](float bad) {
    return [bad](Floats& values, std::size_t rank) { values[33] = rank == 1 ? bad : values[33]; };
  };
  const auto set_on_all = [](float bad) { return [bad](Floats& values, std::size_t) { values[33] = bad; }; };
  // Two pairs of opposed gradients: the coefficients of adacons add up to nothing.
  const auto oppose = [](Floats& values, std::size_t rank) {
    values = gradient_of(rank / 2, 0, kSize);
    multiply(values, rank % 2 == 1 ? -1 : 1);
  };
  return {{"NaN on one", set_on_one(kNan), is_not_finite, &GuardCounts::non_finite},
          {"infinity on one", set_on_one(kInfinity), is_not_finite, &GuardCounts::non_finite},
          {"NaN on all", set_on_all(kNan), is_not_finite, &GuardCounts::non_finite},
          {"infinity on all", set_on_all(kInfinity), is_not_finite, &GuardCounts::non_finite},
          {"zeros", [](Floats& values, std::size_t) { multiply(values, 0); }, is_zero, &GuardCounts::all_zero},
          {"opposed", oppose, is_zero, &GuardCounts::unsafe, {"adacons"}, {{"beta", "0"}}}};
}

TEST(Guards, aFaultShowsInTheResultAndTheCountsAndLeavesNoTrace) {
  for (const Fault& fault : faults())
    for (const std::string_view name : fault.of)
      for (const std::int64_t bad_step : {0, 2})
        test::on_threads(4, [&](runtime::Context& context) {
          Member struck = member_of(context, name, fault.settings),
                 untouched = member_of(context, name, fault.settings);
          for (std::int64_t step = 0; step < 4; ++step) {
            Floats values = gradient_of(struck.rank, step, kSize);
            if (step != bad_step) {
              EXPECT_EQ(struck.finish(values), untouched.finish(values))
                  << name << ", " << fault.name << ": the bad step has changed a later one";
              continue;
            }
            fault.strike(values, struck.rank);
            EXPECT_TRUE(fault.is_expected(struck.finish(values))) << name << ", " << fault.name;
          }
          // Without statistics the training loop counts.
          EXPECT_EQ(struck.algorithm->guards().*fault.counted, has_statistics(name) ? 1 : 0) << fault.name;
        });
}

// Also where the squares of the others' numbers overflow, and on the linear sweep.
TEST(Guards, aNonFiniteWorkerCanBeLeftOut) {
  const std::vector<std::string_view> of_row_sums{"normalized_mean", "adacons"};
  for (const int workers : {4, 66})
    for (const std::string_view name : workers > 64 ? of_row_sums : rules())
      for (const float scale : {1.0f, 1e37f}) {
        SCOPED_TRACE(testing::Message() << name << " of " << workers << " at " << scale);
        // One of the first, so that those behind it move up; weights go by rank, so the last one there.
        const std::size_t bad = name == "weighted_mean" ? 3 : 1;
        const Sends whole = healthy(kSize, scale);
        const Sends sends = spoilt(whole, bad, [](Floats& gradient, std::int64_t) { gradient[33] = kNan; });
        const auto results = results_of(workers, name, {{"non_finite", "exclude"}, {"magnitude", "mean_norm"}}, 3,
                                        sends, [&](Member& member) {
                                          EXPECT_EQ(member.algorithm->report()->coefficients[bad], 0);
                                          EXPECT_EQ(member.algorithm->report()->event, math::Event::non_finite);
                                        });
        auto others = gradients_of(static_cast<std::size_t>(workers), 0, whole);
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(bad));
        expect_near(results[0], Oracle(name, "mean_norm").step(others));
        for (const Floats& result : results) EXPECT_TRUE(all_finite(result));
      }
}

// As where all overflow under a gradient scaler, which has to see that for as long as it lasts: beyond the patience,
// too.
TEST(Guards, whatIsFiniteOnNoWorkerHasNoFiniteResultHoweverLongThatLasts) {
  const Sends sends = [](std::size_t rank, std::int64_t step) {
    Floats values = gradient_of(rank, step, kSize);
    if (step >= 2 && step < 12) values[rank] = kNan;
    return values;
  };
  for (const std::string_view name : rules())
    for (const std::string non_finite : {"propagate", "exclude"})
      for (const std::string transfer : {"exact", "sketch"}) {
        const auto results = results_of(3, name, {{"non_finite", non_finite}, {"transfer", transfer}}, 14, sends);
        // With sketches a worker that excludes itself hears of the others one step later.
        const bool is_late = non_finite == "exclude" && transfer == "sketch";
        for (std::size_t step = 0; step < results.size(); ++step)
          EXPECT_TRUE((step == 2 && is_late) || all_finite(results[step]) == (step < 2 || step >= 12))
              << name << ", " << non_finite << ", " << transfer << ", step " << step;
      }
}

TEST(Guards, oneWorkerWithZerosIsNoEvent) {
  for (const std::string_view name : rules()) {
    const Sends sends = spoilt(healthy(kSize), 1, [](Floats& gradient, std::int64_t) { multiply(gradient, 0); });
    const auto results = results_of(3, name, {}, 3, sends, [&](Member& member) {
      EXPECT_EQ(member.algorithm->guards().all_zero + member.algorithm->guards().unsafe, 0) << name;
    });
    for (const Floats& result : results) EXPECT_TRUE(all_finite(result) && std::abs(result[0]) > 0) << name;
  }
}

TEST(RuleMemory, aRestoredRuleGoesOnToTheSameBits) {
  for (const std::string_view name : rules())
    for (const base::Settings& settings :
         {base::Settings{}, base::Settings{{"granularity", "bucket"}}, base::Settings{{"transfer", "sketch"}}})
      test::on_threads(3, [&](runtime::Context& context) {
        Member first = member_of(context, name, settings), second = member_of(context, name, settings);
        for (std::int64_t step = 0; step < 3; ++step) step == 1 ? first.finish(Floats(kSize)) : first.step(step);
        base::Archive archive;
        first.algorithm->save(archive);
        EXPECT_EQ(second.algorithm->restore(archive), "");
        EXPECT_EQ(second.algorithm->guards().all_zero, first.algorithm->guards().all_zero);
        for (std::int64_t step = 3; step < 6; ++step) EXPECT_EQ(second.step(step), first.step(step)) << name;
      });
}

TEST(RuleMemory, anotherNumberOfWorkersReSamplesSortedMomentumAndSaysSo) {
  for (const auto& [name, expected] :
       {std::pair{"adacons", "the sorted momentum of 6 workers was re-sampled for 4"},
        {"direction_consensus", "the memory of 6 workers does not fit 4: it starts anew"},
        {"mean", ""}}) {
    base::Archive archive;
    test::on_threads(6, [&, name = name](runtime::Context& context) {
      Member member = member_of(context, name);
      member.step(0);
      if (context.rank() == 0) member.algorithm->save(archive);
    });
    if (std::string_view(name) == "adacons") {
      EXPECT_EQ(archive.get_vector<double>("rule memory 0").size(), 6u);
    }
    test::on_threads(4, [&, name = name, expected = expected](runtime::Context& context) {
      Member member = member_of(context, name);
      EXPECT_EQ(member.algorithm->restore(archive), expected);
      EXPECT_TRUE(all_finite(member.step(1)));
    });
  }
}

}  // namespace
}  // namespace flockstep::algorithms::guards_test
