// Every gradient rule at the ends of float's range, where squares of finite numbers do not fit a float: through the
// public interface, against the rules' plain form on vectors of double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "flockstep/flockstep.h"
#include "math/oracle.h"

namespace flockstep::extremes_test {
namespace {

namespace oracle = math::oracle;
using Options = std::map<std::string, std::string>;

constexpr std::size_t kSize = 150;
constexpr double kEps = 1e-8;
// Subnormal numbers, the smallest normal ones, where squares vanish, where they overflow, and numbers that few can be
// added of.
constexpr float kScales[] = {1e-42f, 2e-38f, 1e-23f, 1e19f, 2e37f};

// Numbers of about the size of `scale`: a direction that all share, and one's own.
std::vector<float> gradient_of(int rank, float scale) {
  std::vector<float> shared(kSize), own(kSize);
  base::Random(5, base::Purpose::test, 999).fill_uniform(shared, -1, 1);
  base::Random(5, base::Purpose::test, static_cast<std::uint32_t>(rank)).fill_uniform(own, -1, 1);
  for (std::size_t k = 0; k < kSize; ++k) own[k] = (shared[k] + own[k]) * scale * (1 + static_cast<float>(rank % 3));
  return own;
}

// What all workers got, the same bits on each of them. `gradient` gives a rank's.
template <typename Gradient>
std::vector<float> result_of(int workers, const std::string& rule, const Options& options, const Gradient& gradient,
                             const std::string& event = "none") {
  std::mutex mutex;
  std::set<std::vector<float>> results;
  launch({.engine = "threads", .workers = workers}, [&](Worker& worker) {
    std::vector<float> values = gradient(worker.rank());
    Synchronizer synchronizer(worker, rule, kSize, options);
    synchronizer.after_backward(values);
    EXPECT_EQ(synchronizer.report().event, event);
    const std::lock_guard lock(mutex);
    results.insert(std::move(values));
  });
  EXPECT_EQ(results.size(), 1u) << "workers on different bits, or NaN";
  return *results.begin();
}

template <typename Gradient>
oracle::Gradients gradients(int workers, const Gradient& gradient) {
  oracle::Gradients all;
  for (int rank = 0; rank < workers; ++rank) {
    const std::vector<float> floats = gradient(rank);
    all.emplace_back(floats.begin(), floats.end());
  }
  return all;
}

oracle::Vector expected_of(const std::string& rule, const oracle::Gradients& all) {
  if (rule == "mean") return oracle::mean(all);
  if (rule == "normalized_mean") return oracle::normalized_mean(all, kEps);
  if (rule == "adacons") return oracle::AdaCons{.beta = 0.99, .eps = kEps}.step(all);
  if (rule == "direction_consensus") return oracle::DirectionConsensus{.beta = 0.9, .eps = kEps}.step(all);
  if (rule == "geometric_median") return oracle::geometric_median_of_directions(all, 10, kEps);
  return oracle::adasum(all);
}

// Relative to the numbers' size; and a subnormal result is rounded to a multiple of the least of them.
void expect_near(const std::vector<float>& values, const oracle::Vector& expected, double tolerance) {
  const double size = oracle::norm(expected) / std::sqrt(static_cast<double>(kSize));
  const double allowed = tolerance * size + static_cast<double>(std::numeric_limits<float>::denorm_min());
  for (std::size_t k = 0; k < kSize; ++k) ASSERT_NEAR(static_cast<double>(values[k]), expected[k], allowed) << k;
}

void expect_oracle(int workers, const std::string& rule, const Options& options, float scale, double tolerance) {
  const auto gradient = [&](int rank) { return gradient_of(rank, scale); };
  const oracle::Gradients all = gradients(workers, gradient);
  oracle::Vector expected = expected_of(rule, all);
  if (const auto magnitude = options.find("magnitude"); magnitude != options.end())
    expected = oracle::scaled(
        (magnitude->second == "mean_norm" ? oracle::mean_norm(all) : oracle::median_norm(all)) / oracle::norm(expected),
        expected);
  SCOPED_TRACE(rule + " of " + std::to_string(workers) + " at " + std::to_string(std::log10(scale)));
  expect_near(result_of(workers, rule, options, gradient), expected, tolerance);
}

const std::vector<std::string> kRules{"mean",  "normalized_mean", "adacons", "direction_consensus", "geometric_median",
                                      "adasum"};

TEST(Extremes, everyRuleGivesWhatItsPlainFormOnVectorsGives) {
  for (const std::string& rule : kRules)
    for (const int workers : {1, 2, 3, 4, 9})
      for (const float scale : kScales) expect_oracle(workers, rule, {}, scale, 2e-5);
}

TEST(Extremes, everyMagnitudeCanBeAskedFor) {
  for (const std::string& rule : kRules)
    for (const std::string magnitude : {"mean_norm", "median_norm"})
      for (const float scale : {2e-38f, 1e-23f, 1e19f, 1e37f})
        expect_oracle(4, rule, {{"magnitude", magnitude}}, scale, 2e-5);
}

TEST(Extremes, theLinearSweepAboveSixtyFourWorkersGivesTheSame) {
  for (const std::string rule : {"mean", "normalized_mean", "adacons"})
    for (const float scale : {2e-38f, 1e-23f, 1e17f, 1e37f})
      for (const Options& options : {Options{}, {{"magnitude", "median_norm"}}, {{"non_finite", "exclude"}}})
        expect_oracle(70, rule, options, scale, 2e-5);
}

TEST(Extremes, halfTheBytesOnTheWireGiveTheSameToThreeDigits) {
  for (const std::string& rule : kRules)
    for (const float scale : {2e-38f, 1e-23f, 1e19f, 5e37f})
      expect_oracle(4, rule, {{"wire", "bfloat16"}}, scale, 0.03);
}

TEST(Extremes, tensorsAtBothEndsOfTheRangeAreWeighedOnTheirOwn) {
  for (const std::string& rule : kRules)
    launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
      std::vector<float> values;
      for (const float scale : kScales)
        for (const float value : gradient_of(worker.rank(), scale)) values.push_back(value);
      Synchronizer synchronizer(worker, rule, std::vector<std::size_t>(std::size(kScales), kSize),
                                {{"granularity", "tensor"}});
      synchronizer.after_backward(values);
      for (std::size_t i = 0; i < std::size(kScales); ++i) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * kSize);
        const auto all = gradients(3, [&](int rank) { return gradient_of(rank, kScales[i]); });
        expect_near({begin, begin + kSize}, expected_of(rule, all), 2e-5);
      }
    });
}

TEST(Extremes, oneWorkerFarAboveOrBelowTheOthersIsWeighedAsAnyOther) {
  for (const std::string& rule : kRules)
    for (const float scale : kScales)
      for (const std::string non_finite : {"propagate", "exclude"}) {
        const auto gradient = [&](int rank) { return gradient_of(rank, rank == 1 ? scale : 1); };
        SCOPED_TRACE(rule + " at " + std::to_string(std::log10(scale)));
        expect_near(result_of(3, rule, {{"non_finite", non_finite}}, gradient),
                    expected_of(rule, gradients(3, gradient)), 2e-5);
      }
}

TEST(Extremes, aNumberThatIsNotFiniteIsStillSeenBesideNumbersWhoseSquaresOverflow) {
  const auto gradient = [](int rank) {
    std::vector<float> values = gradient_of(rank, 1e37f);
    if (rank == 2) values[7] = std::numeric_limits<float>::infinity();
    return values;
  };
  for (const std::string& rule : kRules)
    expect_near(result_of(3, rule, {{"non_finite", "exclude"}}, gradient, "non_finite"),
                expected_of(rule, gradients(2, gradient)), 2e-5);
}

// What dividing by a square that has overflowed or vanished breaks first.
TEST(AdasumStability, equalGradientsAreTheirOwnResultAtAnySize) {
  for (const int workers : {2, 3, 4})
    for (const float scale : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(), 1e-23f,
                              1e19f, std::numeric_limits<float>::max() / 2}) {
      const auto gradient = [&](int) { return gradient_of(0, scale); };
      const std::vector<float> own = gradient(0);
      expect_near(result_of(workers, "adasum", {}, gradient), {own.begin(), own.end()}, 1e-6);
    }
}

TEST(AdasumStability, aHugeAndATinyGradientAddUpToTheHugeOne) {
  for (const int workers : {2, 3, 4}) {
    const auto gradient = [](int rank) { return gradient_of(rank, rank == 1 ? 5e37f : 1e-38f); };
    const std::vector<float> huge = gradient(1);
    expect_near(result_of(workers, "adasum", {}, gradient), {huge.begin(), huge.end()}, 1e-6);
  }
}

}  // namespace
}  // namespace flockstep::extremes_test
