#include "train/faults.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "flockstep/error.h"
#include "support/refusal.h"

namespace flockstep::train::faults_test {
namespace {

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

TEST(Faults, othersSendTheirGradient) {
  const auto right = sent("2:zeros");
  EXPECT_EQ(right[0], 1);
  EXPECT_EQ(right[999], 1000);
  EXPECT_EQ(sent("3:zeros", 0, 1000, 4), right);
}

TEST(Faults, scaleAndZerosSendAMultiple) {
  const auto right = sent("2:zeros"), scaled = sent("3:scale:-5"), zeros = sent("3:zeros");
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
  EXPECT_EQ(count(sent("3:nan:100", 98)), 0);
  EXPECT_EQ(count(sent("3:nan:100", 99)), 1);  // the hundredth
  EXPECT_EQ(count(sent("3:nan:100", 100)), 0);
  EXPECT_EQ(count(sent("3:nan", 0)), 1);
  EXPECT_EQ(count(sent("3:nan", 57)), 1);
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
  const auto sentence_of = [](const std::string& text) -> std::string {
    return test::refusal([&] { Faults(parse_faults(text), 1, 0, kWorkers); });
  };
  EXPECT_EQ(sentence_of("3:scal:1"),
            "unknown fault 'scal' (did you mean scale?); there are scale, noise, zeros, nan, copies");
  EXPECT_EQ(sentence_of("8:zeros"), "--faulty names worker 8, but workers are 0 to 7");
  EXPECT_EQ(sentence_of("3:copies:9"), "--faulty names worker 9, but workers are 0 to 7");
  EXPECT_EQ(sentence_of("3"), "--faulty takes the form 3:scale:-5, not '3'");
  EXPECT_EQ(sentence_of("3:zeros@"),
            "the step after @ in --faulty takes a whole number from 1 to 1099511627776, not ''");
  EXPECT_EQ(sentence_of("3:zeros@5-4"),
            "the step after @ in --faulty takes a whole number from 5 to 1099511627776, not '4'");
  EXPECT_EQ(sentence_of("3:zeros@5-6-7"), "--faulty takes steps as @50, @50-80 or @50-, not '@5-6-7'");
  EXPECT_EQ(sentence_of("3:nan@5"), "--faulty takes no steps after @ for nan, as in '3:nan@5'");
  EXPECT_EQ(sentence_of("3:zeros,"), "--faulty takes the form 3:scale:-5, not ''");
  EXPECT_EQ(sentence_of("3:noise"), "--faulty takes the form 2:noise:10 for noise, not '3:noise'");
  EXPECT_EQ(sentence_of("3:zeros:1"), "--faulty takes the form 4:zeros for zeros, not '3:zeros:1'");
  EXPECT_EQ(sentence_of("3:nan:1:2"), "--faulty takes the form 5:nan:100 for nan, not '3:nan:1:2'");
  EXPECT_EQ(sentence_of("-1:zeros"), "the worker in --faulty takes a whole number from 0 to 1000000, not '-1'");
  EXPECT_EQ(sentence_of("3:noise:-1"), "the number after noise in --faulty takes a number from 0 to 1000000, not '-1'");
  EXPECT_EQ(sentence_of("3:nan:0"),
            "the number after nan in --faulty takes a whole number from 1 to 1099511627776, not '0'");
  EXPECT_NE(sentence_of("3:scale:nan"), "");
}

}  // namespace
}  // namespace flockstep::train::faults_test
