// The coarse formats of the wire, with what they lose.
#include "kernels/cpu/packing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace flockstep::kernels::cpu {
namespace {

using Floats = std::vector<float>;

Floats random_numbers(std::size_t n, float magnitude = 1) {
  Floats x(n);
  base::Random(5, base::Purpose::test, static_cast<std::uint32_t>(n)).fill_uniform(x, -magnitude, magnitude);
  return x;
}

Floats through_wire(const Floats& x, std::span<float> lost = {}) {
  std::vector<std::byte> packed(packed_bytes(x.size()));
  pack(x, lost, packed);
  Floats back(x.size(), 77);
  unpack(packed, back);
  return back;
}

float unit_of(const Floats& x, std::size_t k) {
  const std::size_t begin = k / kPackedBlock * kPackedBlock, end = std::min(x.size(), begin + kPackedBlock);
  float largest = 0;
  for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest / 127;
}

TEST(Packing, takesOneBytePerNumberAndAFloatPerBlock) {
  EXPECT_EQ(packed_bytes(0), 0u);
  EXPECT_EQ(packed_bytes(1), 5u);
  EXPECT_EQ(packed_bytes(kPackedBlock), kPackedBlock + 4);
  EXPECT_EQ(packed_bytes(kPackedBlock + 1), kPackedBlock + 9);
}

TEST(Packing, everyNumberComesBackWithinHalfAUnitOfItsBlock) {
  for (const std::size_t n : {0, 1, 2, 7, 255, 256, 257, 1000})
    for (const float magnitude : {1e-30f, 1.0f, 1e30f, 1.5e38f}) {
      const Floats x = random_numbers(n, magnitude), back = through_wire(x);
      for (std::size_t k = 0; k < n; ++k)
        ASSERT_LE(std::abs(static_cast<double>(back[k]) - x[k]), 0.501 * unit_of(x, k)) << n << " numbers, at " << k;
    }
}

TEST(Packing, wholeNumbersOfUnitsComeBackExactlyAndTiesGoToEven) {
  const Floats x{127, 3, -127, 0, 2.5f, 3.5f, -2.5f};
  EXPECT_EQ(through_wire(x), (Floats{127, 3, -127, 0, 2, 4, -2}));
}

TEST(Packing, whatIsLostIsKeptAndAddedToTheNext) {
  const std::size_t n = 600;
  const Floats x = random_numbers(n);
  Floats lost(n);
  std::vector<double> sum(n);
  constexpr int kMessages = 200;
  for (int message = 0; message < kMessages; ++message) {
    const Floats back = through_wire(x, lost);
    for (std::size_t k = 0; k < n; ++k) sum[k] += back[k];
  }
  // All that was ever sent is all there was to send but for what is kept, and that is half a unit.
  for (std::size_t k = 0; k < n; ++k) {
    EXPECT_LE(std::abs(lost[k]), 0.55f * 2 / 127);
    EXPECT_NEAR(sum[k] + lost[k], kMessages * static_cast<double>(x[k]), 1e-4);
  }
}

TEST(Packing, aNumberBelowHalfAUnitArrivesInTimeOnlyWithFeedback) {
  const Floats x{1, 0.001f};
  Floats lost(2);
  double with = 0, without = 0;
  for (int message = 0; message < 1000; ++message) {
    with += through_wire(x, lost)[1];
    without += through_wire(x)[1];
  }
  EXPECT_EQ(without, 0);
  EXPECT_NEAR(with, 1, 0.01);
}

TEST(Packing, aBlockWithANumberThatIsNotFiniteBecomesNaNAndLosesNothing) {
  for (const float wrong : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    Floats x = random_numbers(2 * kPackedBlock), lost(x.size(), 0.5f);
    x[3] = wrong;
    const Floats back = through_wire(x, lost);
    for (std::size_t k = 0; k < x.size(); ++k) {
      EXPECT_EQ(std::isnan(back[k]), k < kPackedBlock);
      if (k < kPackedBlock) {
        EXPECT_EQ(lost[k], 0);
      }
      EXPECT_TRUE(std::isfinite(lost[k]));
    }
  }
}

TEST(Packing, numbersThatNoUnitIsSmallEnoughForAreKept) {
  const Floats x{1e-40f, -1e-39f};
  Floats lost(2);
  EXPECT_EQ(through_wire(x, lost), Floats(2));
  EXPECT_EQ(lost, x);
}

TEST(Packing, bfloat16KeepsWhatItLosesToo) {
  const std::size_t n = 300;
  const Floats x = random_numbers(n);
  Floats lost(n);
  std::vector<double> sum(n);
  std::vector<BFloat16> sent(n);
  for (int message = 0; message < 100; ++message) {
    narrow(x, lost, sent);
    for (std::size_t k = 0; k < n; ++k) sum[k] += to_float(sent[k]);
  }
  for (std::size_t k = 0; k < n; ++k) EXPECT_NEAR(sum[k] + lost[k], 100 * static_cast<double>(x[k]), 1e-4);
  const Floats wrong{std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()};
  Floats of_wrong(2, 1);
  narrow(wrong, of_wrong, std::span(sent).first(2));
  EXPECT_EQ(of_wrong, Floats(2));
}

}  // namespace
}  // namespace flockstep::kernels::cpu
