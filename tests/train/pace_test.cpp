#include "train/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "flockstep/error.h"

namespace flockstep::train {
namespace {

using base::Duration;

TEST(Pace, exactlySoManyRandomWorkersAreLateEachStepAndTheyChange) {
  PaceOptions options;
  parse_straggler("2x320ms", options);
  std::set<std::set<int>> seen;
  for (std::int64_t step = 0; step < 50; ++step) {
    std::set<int> late;
    for (int rank = 0; rank < 8; ++rank) {
      const Duration delay = Pace(options, 5, rank, 8).delay(step);
      if (delay.count() > 0) late.insert(rank);
      EXPECT_TRUE(delay.count() == 0 || delay == Duration(0.32));
    }
    EXPECT_EQ(late.size(), 2u);
    seen.insert(late);
  }
  EXPECT_GT(seen.size(), 10u);
}

TEST(Pace, fixedStragglersAddUpWithRandomOnes) {
  PaceOptions options;
  parse_fixed_stragglers("3:50ms,1:2s", options);
  parse_straggler("4x1ms", options);
  EXPECT_NEAR(Pace(options, 1, 3, 4).delay(0).count(), 0.051, 1e-12);
  EXPECT_NEAR(Pace(options, 1, 1, 4).delay(7).count(), 2.001, 1e-12);
  EXPECT_EQ(Pace(options, 1, 0, 4).delay(7), Duration(0.001));
}

TEST(Pace, jitterScalesSleptComputeWithMeanOne) {
  PaceOptions options;
  options.compute = Duration(0.1);
  parse_jitter("lognormal:0.3", options);
  const Pace pace(options, 1, 0, 4);
  double sum = 0;
  for (int step = 0; step < 20000; ++step) sum += pace.compute(step).count();
  EXPECT_NEAR(sum / 20000, 0.1, 0.1 * 5 * 0.31 / 141);
  EXPECT_NE(pace.compute(1), pace.compute(2));
  EXPECT_EQ(pace.jitter_of_measured(1, Duration(1)), Duration(0));
}

TEST(Pace, jitterWithoutSleptComputeStretchesWhatWasMeasured) {
  PaceOptions options;
  parse_jitter("lognormal:0.5", options);
  const Pace pace(options, 1, 0, 4);
  double longest = 0;
  for (int step = 0; step < 100; ++step) {
    const double extra = pace.jitter_of_measured(step, Duration(2)).count();
    EXPECT_GE(extra, 0);
    longest = std::max(longest, extra);
  }
  EXPECT_GT(longest, 1);
}

TEST(Pace, badInputSaysWhatIsAllowed) {
  const auto sentence_of = [](const auto& action) -> std::string {
    try {
      PaceOptions options;
      action(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(sentence_of([](auto& o) { parse_straggler("320ms", o); }),
            "--straggler takes the form 2x320ms, not '320ms'");
  EXPECT_EQ(sentence_of([](auto& o) { parse_straggler("2x320", o); }),
            "--straggler takes a time such as 320ms, 1.5s or 50us, not '320'");
  EXPECT_EQ(sentence_of([](auto& o) { parse_straggler("-1x3ms", o); }),
            "the count in --straggler takes a whole number from 0 to 1000000, not '-1'");
  EXPECT_EQ(sentence_of([](auto& o) { parse_jitter("normal:1", o); }),
            "--jitter knows the distribution lognormal, not 'normal'");
  EXPECT_EQ(sentence_of([](auto& o) {
              o.random_stragglers = 5;
              Pace(o, 1, 0, 4);
            }),
            "--straggler asks for 5 slow workers of 4: ask for 0 to 4");
  EXPECT_EQ(sentence_of([](auto& o) {
              parse_fixed_stragglers("4:1ms", o);
              Pace(o, 1, 0, 4);
            }),
            "--straggler-fixed names worker 4, but workers are 0 to 3");
}

}  // namespace
}  // namespace flockstep::train
