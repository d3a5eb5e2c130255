// What a run is told to pretend: steps that take time, workers that are late, and gradients that are wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/files.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"
#include "train/faults.h"
#include "train/pace.h"

namespace flockstep::train::pace_test {
namespace {

using base::Duration;

class MeasuredStepsTest : public testing::Test {
 protected:
  void write(const std::string& text) { base::write_atomically(file_, text); }

  const test::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "steps";
};

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

TEST(Pace, exactlySoManyRandomWorkersAreLateEachStepAndTheyChange) {
  PaceOptions options;
  parse_straggler("2x320ms", options);
  EXPECT_EQ(options.random_delay, Duration(0.32));
  EXPECT_EQ(late_by_step(options, 5, 8, 50), std::vector<int>(50, 2));
  int times = 0;
  for (int step = 0; step < 50; ++step) times += Pace(options, 5, 3, 8).delay(step).count() > 0;
  EXPECT_GT(times, 3);
  EXPECT_LT(times, 25);
}

TEST(Pace, independentStragglersAreLateAsOftenAsTheirOwnDrawsNameThem) {
  PaceOptions options;
  parse_straggler("independent:2x320ms", options);
  constexpr int kSteps = 4000;
  for (const int workers : {4, 16, 64}) {
    const std::vector<int> late = late_by_step(options, 5, workers, kSteps);
    const double chance = 1 - std::pow(1 - 1.0 / workers, 2), none = std::pow(1 - chance, workers);
    const double draws = static_cast<double>(kSteps) * workers, sum = std::reduce(late.begin(), late.end(), 0.0);
    EXPECT_NEAR(sum / draws, chance, 5 * std::sqrt(chance * (1 - chance) / draws)) << workers;
    EXPECT_NEAR(static_cast<double>(std::ranges::count(late, 0)), kSteps * none, 5 * std::sqrt(kSteps * none))
        << workers;
    EXPECT_GT(*std::ranges::max_element(late), 2) << workers << ": no worker knows of the others' draws";
  }
  PaceOptions again;
  parse_straggler(straggler_text(options), again);
  EXPECT_EQ(again.random_delay, options.random_delay);
  EXPECT_EQ(late_by_step(again, 1, 8, 200), late_by_step(options, 1, 8, 200));
  EXPECT_NE(late_by_step(options, 1, 8, 200), late_by_step(options, 2, 8, 200));
}

TEST(Pace, fixedStragglersAddUpWithRandomOnes) {
  PaceOptions options;
  parse_fixed_stragglers("3:50ms,1:2s", options);
  parse_straggler("4x1ms", options);
  EXPECT_NEAR(Pace(options, 1, 3, 4).delay(0).count(), 0.051, 1e-12);
  EXPECT_NEAR(Pace(options, 1, 1, 4).delay(7).count(), 2.001, 1e-12);
  EXPECT_EQ(Pace(options, 1, 0, 4).delay(7), Duration(0.001));
}

TEST(Pace, jitterScalesSleptComputeWithMeanOneOrStretchesWhatWasMeasured) {
  PaceOptions slept, in_two, measured;
  parse_compute("lognormal:100ms:0.3", slept);
  parse_compute("100ms", in_two);
  parse_jitter("lognormal:0.3", in_two);
  parse_jitter("lognormal:0.5", measured);
  const Pace pace(slept, 1, 0, 4), same(in_two, 1, 0, 4), stretched(measured, 1, 0, 4);
  double sum = 0, longest = 0;
  for (int step = 0; step < 20000; ++step) {
    ASSERT_EQ(pace.compute(step), same.compute(step));
    sum += pace.compute(step).count();
    ASSERT_GE(stretched.jitter_of_measured(step, Duration(2)).count(), 0);
    longest = std::max(longest, stretched.jitter_of_measured(step, Duration(2)).count());
  }
  EXPECT_NEAR(sum / 20000, 0.1, 0.1 * 5 * 0.31 / 141);
  EXPECT_GT(longest, 1);
  EXPECT_NE(pace.compute(1), pace.compute(2));
  EXPECT_EQ(pace.jitter_of_measured(1, Duration(1)), Duration(0));
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
  const auto sequence = [&](std::uint64_t seed, int rank) {
    std::vector<Duration> all;
    for (int step = 0; step < 30; ++step) all.push_back(Pace(options, seed, rank, 3).compute(step));
    return all;
  };
  EXPECT_NE(sequence(1, 0), sequence(1, 1));
  EXPECT_NE(sequence(1, 0), sequence(2, 0));
}

TEST_F(MeasuredStepsTest, aBadFileGetsASentenceWithTheLine) {
  const std::string name = file_.string(), empty = name + " has no durations: it should have one in seconds per line";
  const auto at = [&](int line, const std::string& given) {
    return "line " + std::to_string(line) + " of " + name +
           " should be the seconds of one step, above 0 and up to 1000000, not '" + given + "'";
  };
  for (const auto& [text, sentence] :
       std::vector<std::pair<std::string, std::string>>{{"0.1\n200ms\n", at(2, "200ms")},
                                                        {"# first\n\n-1\n", at(3, "-1")},
                                                        {"0\n", at(1, "0")},
                                                        {"nan\n", at(1, "nan")},
                                                        {"0.1 0.2\n", at(1, "0.1 0.2")},
                                                        {std::string(1000, 'x'), at(1, std::string(40, 'x'))},
                                                        {"# nothing\n\n", empty},
                                                        {"", empty}}) {
    write(text);
    EXPECT_EQ(test::refusal(ErrorCode::bad_file, [&] { read_measured_steps(file_); }), sentence);
  }
  std::filesystem::remove(file_);
  EXPECT_THROW(read_measured_steps(file_), Error);
  EXPECT_THROW(read_measured_steps(file_.parent_path()), Error);
}

TEST(Pace, badInputSaysWhatIsAllowed) {
  const std::string time = " takes a time such as 320ms, 1.5s or 50us, not ",
                    form = "--straggler takes the form 2x320ms or independent:2x320ms, not ";
  struct Case {
    void (*parse)(std::string_view text, PaceOptions& options);
    std::string text, said;
  };
  std::vector<Case> cases{
      {parse_compute, "200", "--compute" + time + "'200'"},
      {parse_compute, "lognormal:1s:wide", "the sigma in --compute takes a number from 0 to 5, not 'wide'"},
      {parse_straggler, "320ms", form + "'320ms'"},
      {parse_straggler, "independent:320ms", form + "'320ms'"},
      {parse_straggler, "together:2x320ms", "the count in --straggler takes a whole number from 0 to 1000000"},
      {parse_straggler, "2x320", "--straggler" + time + "'320'"},
      {parse_straggler, "-1x3ms", "the count in --straggler takes a whole number from 0 to 1000000"},
      {parse_straggler, "5x3ms", "--straggler asks for 5 slow workers of 4: ask for 0 to 4"},
      {parse_straggler, "independent:5x1ms", ""},  // draws, of which there may be more than workers
      {parse_fixed_stragglers, "4:1ms", "--straggler-fixed names worker 4, but workers are 0 to 3"},
      {parse_jitter, "normal:1", "--jitter knows the distribution lognormal, not 'normal'"},
  };
  for (const std::string text : {"", "file:", "lognormal:", "lognormal:200ms"})
    cases.push_back({parse_compute, text, "--compute takes the form 200ms, lognormal:200ms:0.53 or file:PATH, not "});
  for (const auto& [parse, text, said] : cases) {
    const std::string sentence = test::refusal([&] {
      PaceOptions options;
      parse(text, options);
      Pace(options, 1, 0, 4);
    });
    EXPECT_TRUE(sentence.starts_with(said) && sentence.empty() == said.empty()) << text << ": " << sentence;
  }
}

constexpr int kWorkers = 8;

// What worker 3 sends instead of 1, 2, 3, ... in that step, reported in two ranges, the last first.
std::vector<float> sent(const std::string& text, std::int64_t step = 0, std::size_t size = 1000, int rank = 3) {
  std::vector<float> gradient(size);
  std::iota(gradient.begin(), gradient.end(), 1.0f);
  Faults faults(parse_faults(text), 5, rank, kWorkers);
  faults.begin(step);
  const std::size_t cut = size / 3;
  faults.apply(cut, std::span(gradient).subspan(cut));
  faults.apply(0, std::span(gradient).first(cut));
  return gradient;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST(Faults, scaleAndZerosSendAMultipleAndOthersTheirGradient) {
  const auto right = sent("2:zeros"), scaled = sent("3:scale:-5"), zeros = sent("3:zeros");
  EXPECT_EQ(right[999], 1000);
  EXPECT_EQ(sent("3:zeros", 0, 1000, 4), right);
  for (std::size_t i = 0; i < right.size(); ++i) {
    EXPECT_EQ(scaled[i], -5 * right[i]);
    EXPECT_EQ(zeros[i], 0);
  }
  EXPECT_EQ(sent("3:scale:-1,3:scale:-5")[0], 5);
}

TEST(Faults, noiseIsSoManyTimesAsLongAndPointsAnywhere) {
  const auto right = sent("2:zeros"), noise = sent("3:noise:10");
  EXPECT_NEAR(std::sqrt(dot(noise, noise) / dot(right, right)), 10, 1e-4);
  EXPECT_LT(std::abs(dot(noise, right)) / std::sqrt(dot(noise, noise) * dot(right, right)), 0.2);
  EXPECT_EQ(sent("3:noise:10"), noise);
  EXPECT_NE(sent("3:noise:10", 1), noise);
  const auto other = sent("4:noise:10", 0, 1000, 4);
  EXPECT_LT(std::abs(dot(noise, other)) / dot(noise, noise), 0.2);
  // Normal: of the numbers of one range, which have one deviation, about 68% lie within it.
  const double deviation =
      std::sqrt(std::inner_product(noise.begin() + 333, noise.end(), noise.begin() + 333, 0.0) / 667);
  const auto within = std::count_if(noise.begin() + 333, noise.end(), [&](float x) { return std::abs(x) < deviation; });
  EXPECT_NEAR(static_cast<double>(within) / 667, 0.683, 0.06);
}

TEST(Faults, oneNumberIsNanInTheStepThatIsNamedOrInAll) {
  const auto count = [](const std::vector<float>& numbers) {
    return std::count_if(numbers.begin(), numbers.end(), [](float x) { return std::isnan(x); });
  };
  for (const std::int64_t step : {0, 98, 99, 100}) {
    EXPECT_EQ(count(sent("3:nan:100", step)), step == 99 ? 1 : 0) << step;  // the hundredth
    EXPECT_EQ(count(sent("3:nan", step)), 1) << step;
  }
}

TEST(Faults, aCopyReadsAnotherWorkersDataAndSendsWhatItGets) {
  const FaultOptions options = parse_faults("6:copies:1,2:zeros");
  EXPECT_EQ(options.data_rank(6), 1);
  EXPECT_EQ(options.data_rank(1), 1);
  EXPECT_EQ(options.data_rank(2), 2);
  EXPECT_EQ(sent("3:copies:1"), sent("2:zeros"));
}

TEST(Faults, stepsBehindAnAtLimitAFaultToThem) {
  const auto right = sent("2:zeros");
  const auto is_zero_in = [&](const std::string& steps, std::int64_t step) {
    const auto numbers = sent("3:zeros@" + steps, step);
    EXPECT_TRUE(numbers == right || std::ranges::count(numbers, 0.0f) == std::ssize(numbers));
    return numbers != right;
  };
  for (const std::int64_t step : {48, 49, 50, 51, 79, 80, 500}) {  // counted from 0
    EXPECT_EQ(is_zero_in("50", step), step == 49);
    EXPECT_EQ(is_zero_in("50-80", step), step >= 49 && step <= 79);
    EXPECT_EQ(is_zero_in("50-", step), step >= 49);
  }
}

TEST(Faults, theTextComesBack) {
  for (const std::string text : {"3:scale:-5,2:noise:10,4:zeros,5:nan:100,5:nan,6:copies:1", "0:scale:0.1",
                                 "3:scale:1000@50,2:scale:-5@100-,1:zeros@7-9"})
    EXPECT_EQ(text_of(parse_faults(text)), text);
  EXPECT_EQ(text_of({}), "");
}

TEST(Faults, badInputSaysWhatIsAllowed) {
  const std::string steps = "the step after @ in --faulty takes a whole number from ";
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"3:scal:1", "unknown fault 'scal' (did you mean scale?)"},
           {"8:zeros", "--faulty names worker 8, but workers are 0 to 7"},
           {"3:copies:9", "--faulty names worker 9"},
           {"3", "--faulty takes the form 3:scale:-5, not '3'"},
           {"3:zeros,", "--faulty takes the form 3:scale:-5, not ''"},
           {"3:zeros@", steps + "1 to 1099511627776, not ''"},
           {"3:zeros@5-4", steps + "5 to 1099511627776, not '4'"},
           {"3:zeros@5-6-7", "--faulty takes steps as @50, @50-80 or @50-, not '@5-6-7'"},
           {"3:nan@5", "--faulty takes no steps after @ for nan"},
           {"3:noise", "--faulty takes the form 2:noise:10"},
           {"3:zeros:1", "--faulty takes the form 4:zeros"},
           {"3:nan:1:2", "--faulty takes the form 5:nan:100"},
           {"-1:zeros", "the worker in --faulty takes a whole number"},
           {"3:noise:-1", "the number after noise in --faulty"},
           {"3:nan:0", "the number after nan in --faulty"},
           {"3:scale:nan", "the number after scale in --faulty"},
       }) {
    const std::string sentence = test::refusal([&] { Faults(parse_faults(text), 1, 0, kWorkers); });
    EXPECT_TRUE(sentence.starts_with(said)) << text << ": " << sentence;
  }
}

}  // namespace
}  // namespace flockstep::train::pace_test
