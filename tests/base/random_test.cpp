#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flockstep::base {
namespace {

using Block = std::array<std::uint32_t, 4>;

TEST(Philox, givesTheKnownAnswersOfItsAuthors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, drawsTheSameNumbersOnEveryPlatform) {
  // From an independent implementation on another libm; a change here changes every published result.
  Random random(42, Purpose::jitter, 3, 7);
  EXPECT_EQ(random.uniform(), Random(42, Purpose::jitter, 3, 7).uniform());
  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += random.lognormal_mean_one(0.5);
  EXPECT_EQ(std::llround(sum * 1e9), 1012029288524LL);
}

TEST(Random, streamsOfDifferentWorkersPurposesAndStepsDiffer) {
  const auto first = Random(1, Purpose::data, 0, 0).bits();
  EXPECT_NE(first, Random(1, Purpose::data, 1, 0).bits());
  EXPECT_NE(first, Random(1, Purpose::data, 0, 1).bits());
  EXPECT_NE(first, Random(1, Purpose::jitter, 0, 0).bits());
  EXPECT_NE(first, Random(2, Purpose::data, 0, 0).bits());
}

TEST(Random, momentsAreRightWithinFiveStandardErrors) {
  Random random(5, Purpose::test);
  constexpr int kDraws = 200000;
  double uniform = 0, normal = 0, square = 0, lognormal = 0;
  for (int i = 0; i < kDraws; ++i) {
    uniform += random.uniform();
    const double z = random.normal();
    normal += z;
    square += z * z;
    lognormal += random.lognormal_mean_one(0.5);
  }
  const double root = std::sqrt(kDraws);
  EXPECT_NEAR(uniform / kDraws, 0.5, 5 * 0.2887 / root);
  EXPECT_NEAR(normal / kDraws, 0, 5 / root);
  EXPECT_NEAR(square / kDraws, 1, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(lognormal / kDraws, 1, 5 * std::sqrt(std::exp(0.25) - 1) / root);
}

TEST(Random, belowCoversItsRangeEvenly) {
  Random random(6, Purpose::test);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * 93);
}

TEST(Random, fillUniformDoesNotDependOnHowManyAreAskedFor) {
  std::vector<float> longer(103), shorter(50);
  Random(7, Purpose::data).fill_uniform(longer, -5, 5);
  Random(7, Purpose::data).fill_uniform(shorter, -5, 5);
  for (std::size_t i = 0; i < shorter.size(); ++i) EXPECT_EQ(longer[i], shorter[i]);
  for (const float x : longer) EXPECT_TRUE(x >= -5 && x < 5);
}

}  // namespace
}  // namespace flockstep::base
