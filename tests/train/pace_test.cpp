#include "train/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/files.h"
#include "flockstep/error.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"

namespace flockstep::train {
namespace {

using base::Duration;

class MeasuredStepsTest : public testing::Test {
 protected:
  void write(const std::string& text) { base::write_atomically(file_, text); }

  const test::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "steps";
};

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

// How many ranks are late in each step.
std::vector<int> late_by_step(const PaceOptions& options, std::uint64_t seed, int workers, int steps) {
  std::vector<int> late(static_cast<std::size_t>(steps));
  for (int rank = 0; rank < workers; ++rank) {
    const Pace pace(options, seed, rank, workers);
    for (int step = 0; step < steps; ++step) {
      const Duration delay = pace.delay(step);
      EXPECT_TRUE(delay.count() == 0 || delay == options.random_delay);
      late[static_cast<std::size_t>(step)] += delay.count() > 0;
    }
  }
  return late;
}

TEST(Pace, independentStragglersAreLateAsOftenAsTheirOwnDrawsNameThem) {
  PaceOptions options;
  parse_straggler("independent:2x320ms", options);
  constexpr int kSteps = 4000;
  for (const int workers : {4, 16, 64}) {
    const std::vector<int> late = late_by_step(options, 5, workers, kSteps);
    const double chance = 1 - std::pow(1 - 1.0 / workers, 2), nobody = std::pow(1 - chance, workers);
    double sum = 0;
    for (const int each : late) sum += each;
    const double draws = static_cast<double>(kSteps) * workers;
    EXPECT_NEAR(sum / draws, chance, 5 * std::sqrt(chance * (1 - chance) / draws)) << workers;
    EXPECT_NEAR(static_cast<double>(std::ranges::count(late, 0)) / kSteps, nobody,
                5 * std::sqrt(nobody * (1 - nobody) / kSteps))
        << workers;
    EXPECT_GT(*std::ranges::max_element(late), 2) << workers << ": no worker knows of the others' draws";
  }
}

TEST(Pace, independentStragglersAreTheSameForTheSameSeedAlone) {
  PaceOptions options;
  parse_straggler("independent:2x1ms", options);
  EXPECT_EQ(late_by_step(options, 1, 8, 200), late_by_step(options, 1, 8, 200));
  EXPECT_NE(late_by_step(options, 1, 8, 200), late_by_step(options, 2, 8, 200));
}

TEST(Pace, aTextOfRandomStragglersIsReadAsTheSame) {
  for (const std::string text : {"2x320ms", "independent:3x1.5s"}) {
    PaceOptions options, again;
    parse_straggler(text, options);
    parse_straggler(straggler_text(options), again);
    EXPECT_EQ(again.random_stragglers, options.random_stragglers);
    EXPECT_EQ(again.independent_stragglers, options.independent_stragglers) << text;
    EXPECT_EQ(again.random_delay, options.random_delay);
  }
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

TEST(Pace, computeHasThreeForms) {
  PaceOptions plain, uneven, in_two;
  parse_compute("200ms", plain);
  EXPECT_EQ(plain.compute, Duration(0.2));
  EXPECT_EQ(plain.jitter_sigma, 0);
  parse_compute("lognormal:200ms:0.53", uneven);
  in_two.compute = Duration(0.2);
  parse_jitter("lognormal:0.53", in_two);
  for (int step = 0; step < 20; ++step)
    EXPECT_EQ(Pace(uneven, 3, 1, 4).compute(step), Pace(in_two, 3, 1, 4).compute(step));
}

TEST_F(MeasuredStepsTest, everyWorkerAndStepDrawsOneOfThemAndAllAreDrawnAlike) {
  write("# seconds\n0.1\n\n  0.2 # twice as long\r\n0.6\n");
  PaceOptions options;
  parse_compute("file:" + file_.string(), options);
  EXPECT_NEAR(options.compute.count(), 0.3, 1e-12) << "their mean";
  std::map<double, int> drawn;
  constexpr int kDraws = 9000;
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 0; step < kDraws / 3; ++step) ++drawn[Pace(options, 1, rank, 3).compute(step).count()];
  ASSERT_EQ(drawn.size(), 3u);
  for (const double seconds : {0.1, 0.2, 0.6})
    EXPECT_NEAR(drawn[seconds], kDraws / 3, 5 * std::sqrt(kDraws * 2.0 / 9)) << seconds;
  EXPECT_EQ(Pace(options, 1, 2, 3).compute(7), Pace(options, 1, 2, 3).compute(7));
  const auto sequence = [&](std::uint64_t seed, int rank) {
    std::vector<Duration> all;
    for (int step = 0; step < 30; ++step) all.push_back(Pace(options, seed, rank, 3).compute(step));
    return all;
  };
  EXPECT_NE(sequence(1, 0), sequence(1, 1));
  EXPECT_NE(sequence(1, 0), sequence(2, 0));
}

TEST_F(MeasuredStepsTest, aBadFileGetsASentenceWithTheLine) {
  const std::string name = file_.string();
  const auto sentence_of = [&](const std::string& text) -> std::string {
    write(text);
    return test::refusal(ErrorCode::bad_file, [&] { read_measured_steps(file_); });
  };
  const auto about_line = [&](int line, const std::string& given) {
    return "line " + std::to_string(line) + " of " + name +
           " should be the seconds of one step, above 0 and up to 1000000, not '" + given + "'";
  };
  EXPECT_EQ(sentence_of("0.1\n200ms\n"), about_line(2, "200ms"));
  EXPECT_EQ(sentence_of("# first\n\n-1\n"), about_line(3, "-1"));
  EXPECT_EQ(sentence_of("0\n"), about_line(1, "0"));
  EXPECT_EQ(sentence_of("nan\n"), about_line(1, "nan"));
  EXPECT_EQ(sentence_of("0.1 0.2\n"), about_line(1, "0.1 0.2"));
  EXPECT_EQ(sentence_of("0.1, 0.2\n"), about_line(1, "0.1, 0.2"));
  EXPECT_EQ(sentence_of(std::string(1000, 'x')), about_line(1, std::string(40, 'x')));
  EXPECT_EQ(sentence_of("# nothing\n\n"), name + " has no durations: it should have one in seconds per line");
  EXPECT_EQ(sentence_of(""), name + " has no durations: it should have one in seconds per line");
  std::filesystem::remove(file_);
  EXPECT_THROW(read_measured_steps(file_), Error);
  EXPECT_THROW(read_measured_steps(file_.parent_path()), Error);
}

TEST(Pace, badInputSaysWhatIsAllowed) {
  const auto sentence_of = [](const auto& action) -> std::string {
    return test::refusal([&] {
      PaceOptions options;
      action(options);
    });
  };
  EXPECT_EQ(sentence_of([](auto& o) { parse_compute("200", o); }),
            "--compute takes a time such as 320ms, 1.5s or 50us, not '200'");
  for (const std::string text : {"", "file:", "lognormal:", "lognormal:200ms"})
    EXPECT_EQ(sentence_of([&](auto& o) { parse_compute(text, o); }),
              "--compute takes the form 200ms, lognormal:200ms:0.53 or file:PATH, not '" + text + "'");
  EXPECT_EQ(sentence_of([](auto& o) { parse_compute("lognormal:1s:wide", o); }),
            "the sigma in --compute takes a number from 0 to 5, not 'wide'");
  EXPECT_EQ(sentence_of([](auto& o) { parse_straggler("320ms", o); }),
            "--straggler takes the form 2x320ms or independent:2x320ms, not '320ms'");
  EXPECT_EQ(sentence_of([](auto& o) { parse_straggler("independent:320ms", o); }),
            "--straggler takes the form 2x320ms or independent:2x320ms, not '320ms'");
  EXPECT_EQ(sentence_of([](auto& o) { parse_straggler("together:2x320ms", o); }),
            "the count in --straggler takes a whole number from 0 to 1000000, not 'together:2'");
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
  PaceOptions draws;
  parse_straggler("independent:5x1ms", draws);
  EXPECT_NO_THROW(Pace(draws, 1, 0, 4)) << "draws, of which there may be more than workers";
  EXPECT_EQ(sentence_of([](auto& o) {
              parse_fixed_stragglers("4:1ms", o);
              Pace(o, 1, 0, 4);
            }),
            "--straggler-fixed names worker 4, but workers are 0 to 3");
}

}  // namespace
}  // namespace flockstep::train
