// Findings from sketches: what the noise in their cosines must not raise, and must not hide.
#include <bit>

#include "fixture.h"
#include "math/watch.h"

namespace flockstep::math {
namespace {

constexpr std::size_t kNumbers = 256, kLengths[] = {1024, 128};

// Walsh functions: of length one, and exactly orthogonal to each other.
Vector walsh(std::size_t index) {
  Vector numbers(kNumbers);
  for (std::size_t k = 0; k < kNumbers; ++k) numbers[k] = std::popcount(index & k) % 2 == 0 ? 0.0625 : -0.0625;
  return numbers;
}

// Of length one, every two with this cosine.
Gradients agreeing(std::size_t workers, double cosine) {
  Gradients gradients;
  const Vector shared = oracle::scaled(std::sqrt(cosine), walsh(workers));
  for (std::size_t i = 0; i < workers; ++i)
    gradients.push_back(oracle::added(oracle::scaled(std::sqrt(1 - cosine), walsh(i)), shared));
  return gradients;
}

// What sketches tell: every number is added, with a sign of chance, to one of `length` sums, and these are brought to
// the gradient's own norm. The same for all workers, and drawn anew for every step.
Statistics sketched(const Gradients& gradients, std::size_t length, std::uint64_t seed, std::int64_t step) {
  base::Random random(seed, base::Purpose::test, static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(step));
  Gradients sketches(gradients.size(), Vector(length));
  for (std::size_t k = 0; k < kNumbers; ++k) {
    const std::uint32_t bits = random.bits(), place = bits % static_cast<std::uint32_t>(length);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      sketches[i][place] += bits >> 31 == 0 ? gradients[i][k] : -gradients[i][k];
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const double scale = oracle::norm(gradients[i]) / oracle::norm(sketches[i]);
    for (double& value : sketches[i]) value *= scale;
  }
  return statistics_of(sketches);
}

std::vector<Finding> findings_after(std::int64_t steps, const Gradients& gradients, std::size_t length,
                                    std::uint64_t seed = 3) {
  Watch watch;
  for (std::int64_t step = 0; step < steps; ++step) watch.observe(step, sketched(gradients, length, seed, step));
  return watch.findings();
}

TEST(WatchSketch, orthogonalGradientsRaiseNothing) {
  for (const std::size_t length : kLengths)
    for (const std::size_t workers : {2u, 3u, 4u, 8u})
      for (std::uint64_t seed = 0; seed < 2; ++seed)
        for (const Finding& finding : findings_after(7000, agreeing(workers, 0), length, seed))
          ADD_FAILURE() << length << " numbers, P = " << workers << ", seed " << seed << ": " << finding.sentence;
}

TEST(WatchSketch, aWrongSignAmongWorkersThatAgreeALittleIsFoundInSixtySteps) {
  for (const std::size_t length : kLengths)
    for (const std::size_t workers : {3u, 4u, 8u, 16u})
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const std::vector<Finding> findings = findings_after(60, times(-1, 1, agreeing(workers, 0.2)), length, seed);
        ASSERT_EQ(findings.size(), 1u) << length << " numbers, P = " << workers << ", seed " << seed;
        EXPECT_EQ(findings[0].kind, FindingKind::against);
        EXPECT_EQ(findings[0].workers, (std::vector<int>{1}));
      }
}

TEST(WatchSketch, opposedAreTwoThatAreAndNotTwoWithClassesOfTheirOwn) {
  for (const std::size_t length : kLengths)
    for (const double cosine : {0.35, 0.8})
      EXPECT_EQ(findings_after(2000, times(-1, 1, agreeing(2, cosine)), length).size(), cosine > 0.65 ? 1u : 0u)
          << length << " numbers";
}

TEST(WatchSketch, onlyEqualGradientsAreTheSame) {
  for (const std::size_t length : kLengths)
    for (const double cosine : {1.0, 0.9999}) {
      Gradients gradients = agreeing(4, 0);
      gradients[3] =
          oracle::added(oracle::scaled(cosine, gradients[1]), oracle::scaled(std::sqrt(1 - cosine * cosine), walsh(7)));
      EXPECT_TRUE(findings_after(Watch::kSteps - 1, gradients, length).empty());
      EXPECT_EQ(findings_after(Watch::kSteps, gradients, length).size(), cosine == 1 ? 1u : 0u);
      const std::vector<Finding> findings = findings_after(2000, gradients, length);
      ASSERT_EQ(findings.size(), cosine == 1 ? 1u : 0u);
      for (const Finding& finding : findings) EXPECT_EQ(finding.workers, (std::vector<int>{1, 3}));
    }
}

}  // namespace
}  // namespace flockstep::math
