#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "fixture.h"

namespace flockstep::kernels::cpu {
namespace {

constexpr SketchKey kKey{0x12345678u, 0x9ABCDEF0u};

template <typename T>
class Sketch : public ::testing::Test {};
TYPED_TEST_SUITE(Sketch, NumberTypes);

template <typename T>
void expect_reference(std::span<const T> x, std::size_t m, std::uint32_t first_chunk, float before = 0.25f) {
  std::vector<float> z(m, before), expected(m, before);  // not from zero: the kernel adds
  const double square = sketch(x, kKey, first_chunk, z);
  const double expected_square = reference::sketch(x, kKey, first_chunk, std::span<float>(expected));
  ASSERT_EQ(bits_of(z), bits_of(expected)) << "n = " << x.size() << ", m = " << m << ", chunk " << first_chunk;
  ASSERT_NEAR(square, expected_square, tolerance(expected_square)) << "n = " << x.size() << ", m = " << m;
}

constexpr std::array<std::size_t, 7> kBins{1, 2, 16, 32, 128, 1024, 4096};
constexpr std::array<std::uint32_t, 4> kFirstChunks{0, 1, 7, 100'000};

TYPED_TEST(Sketch, everyLengthMisalignmentBinsAndChunkMatchTheReferenceToTheBit) {
  for_all_rows<TypeParam>(1, kOrdinary, [](const MadeRows<TypeParam>& rows) {
    for (const std::size_t m : kBins)
      for (const std::uint32_t first_chunk : kFirstChunks) expect_reference(rows.row(0), m, first_chunk);
  });
  on_every_target([] {
    const MadeRows<TypeParam> rows(1, 30'011, 1);
    for (const std::size_t m : {1, 2, 16, 32, 64, 128, 1024, 4096, 65'536}) expect_reference(rows.row(0), m, 3);
  });
}

// l no longer fits 32 bits within the bucket, and then chunk * 32 neither.
TYPED_TEST(Sketch, elementsBeyondThirtyTwoBitsMatchTheReference) {
  const MadeRows<TypeParam> rows(1, 5000);
  for (const std::uint32_t first_chunk : {(1u << 22) - 2, (1u << 27) - 2, ~0u - 2})
    for (const std::size_t m : kBins) expect_reference(rows.row(0), m, first_chunk);
}

TYPED_TEST(Sketch, numbersWhoseSquaresDoNotFitAFloatMatchTheReference) {
  for_all_rows<TypeParam>(5, kAllMagnitudes, [](const MadeRows<TypeParam>& rows) {
    for (std::size_t i = 0; i < rows.workers(); ++i) expect_reference(rows.row(i), 128, 2);
  });
}

// Or a run would not repeat itself, for it depends on the allocator.
TYPED_TEST(Sketch, equalInputsGiveEqualBitsAtAnyAddress) {
  on_every_target([] {
    const MadeRows<TypeParam> rows(1, 5003);
    std::vector<float> first(128);
    const double square = sketch(rows.row(0), kKey, 0, first);
    for (std::size_t shift = 0; shift < 16; ++shift) {
      std::vector<TypeParam> x(shift);
      x.insert(x.end(), rows.row(0).begin(), rows.row(0).end());
      std::vector<float> memory(shift + 128);
      const std::span<float> z = std::span(memory).subspan(shift);
      EXPECT_EQ(sketch(std::span<const TypeParam>(x).subspan(shift), kKey, 0, z), square);
      EXPECT_EQ(bits_of({z.begin(), z.end()}), bits_of(first));
    }
  });
}

// Vectors at the ends of pieces add to bins that are none of theirs.
TYPED_TEST(Sketch, binsThatNoElementFallsIntoKeepTheirBits) {
  for (const float kept : {-0.0f, 0.0f, std::numeric_limits<float>::infinity()})
    for_all_rows<TypeParam>(1, kOrdinary,
                            [&](const MadeRows<TypeParam>& rows) { expect_reference(rows.row(0), 4096, 1, kept); });
}

TYPED_TEST(Sketch, zerosHaveTheSquareZero) {
  const std::vector<TypeParam> x(2000, from_float<TypeParam>(0));
  std::vector<float> z(64);
  EXPECT_EQ(sketch(std::span<const TypeParam>(x), kKey, 0, z), 0);
  EXPECT_TRUE(std::ranges::all_of(z, [](float value) { return value == 0; }));
}

TYPED_TEST(Sketch, nanOrInfinityAnywhereMakesTheSquareNonFinite) {
  on_every_target([] {
    for (const std::size_t n : {1, 5, 32, 33, 1024, 1100}) {
      MadeRows<TypeParam> rows(1, n);
      for (std::size_t k = 0; k < n; ++k) {
        const TypeParam before = rows.writable(0)[k];
        for (const float bad : kNotFinite) {
          rows.writable(0)[k] = from_float<TypeParam>(bad);
          for (const std::size_t m : {1, 64, 1024}) {
            std::vector<float> z(m);
            ASSERT_FALSE(std::isfinite(sketch(rows.row(0), kKey, 0, z))) << "n = " << n << ", k = " << k;
          }
        }
        rows.writable(0)[k] = before;
      }
    }
  });
}

// What other implementations, on other devices, have to give too.
TEST(SketchDefinition, goldenValuesOfMixSignsAndBins) {
  EXPECT_EQ(sketch_mix(0, 0, 0), 0u);
  EXPECT_EQ(sketch_mix(1, 0, 0), 0x11fd02ebu);
  EXPECT_EQ(sketch_mix(0, kKey.k0, kKey.k1), 0x2a285e83u);
  EXPECT_EQ(sketch_mix(31, kKey.k0, kKey.k1), 0x0511557eu);
  EXPECT_EQ(sketch_mix(3'200'000, kKey.k0, kKey.k1), 0x5fa72a35u);
  EXPECT_EQ(sketch_mix(~0u, kKey.k1, kKey.k0), 0x275fe50bu);

  const auto signs = [](std::uint64_t l) {
    std::string text;
    for (std::uint64_t i = l; i < l + 40; ++i) text += sketch_sign(i, kKey) == 0 ? '+' : '-';
    return text;
  };
  EXPECT_EQ(signs(0), "+--+---+++----+-+-++--+++---+-+++------+");
  EXPECT_EQ(signs(1023), "++++----++---+---+-+-+-+-+-++-++-+--+-++");
  EXPECT_EQ(signs(102'400'000), "+------+-++---+-+---+++++--+-+-+-+--++++");

  const auto bins = [](std::size_t m) {
    std::vector<std::size_t> bins;
    for (const std::uint64_t l : {0ull, 1ull, 127ull, 1024ull, 5000ull, 102'400'000ull, (1ull << 32) + 77})
      bins.push_back(sketch_bin(l, kKey, m));
    return bins;
  };
  using List = std::vector<std::size_t>;
  EXPECT_EQ(bins(1), (List{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(bins(16), (List{1, 2, 1, 4, 6, 15, 13}));
  EXPECT_EQ(bins(128), (List{81, 82, 80, 83, 6, 16, 3}));
  EXPECT_EQ(bins(1024), (List{337, 338, 464, 502, 280, 297, 953}));
  EXPECT_EQ(bins(4096), (List{3409, 3410, 3536, 337, 3454, 933, 486}));
}

TEST(SketchDefinition, goldenSketchOfAShortBucket) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<float> z(8);
  EXPECT_EQ(sketch(x, kKey, 1, z), 385);
  EXPECT_EQ(z, (std::vector<float>{-4, -5, -6, 2, -2, 1, 2, 3}));
}

TEST(SketchDefinition, keysFollowFromSeedAndStepAndGiveOtherSignsAndBins) {
  const SketchKey first = sketch_key(1, 1), second = sketch_key(1, 2);
  EXPECT_EQ(second, (SketchKey{0x0B36FE37u, 0xE356D714u}));
  EXPECT_NE(second, sketch_key(2, 2));
  constexpr std::uint64_t kElements = 10'240;
  std::size_t signs = 0, bins = 0;
  for (std::uint64_t l = 0; l < kElements; ++l) {
    signs += sketch_sign(l, first) == sketch_sign(l, second) ? 1 : 0;
    bins += sketch_bin(l, first, 16) == sketch_bin(l, second, 16) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(signs) / kElements, 0.5, 0.025);
  EXPECT_NEAR(static_cast<double>(bins) / kElements, 1.0 / 16, 0.05);
}

TEST(SketchDefinition, chunksOfABucketAreRoundedUp) {
  EXPECT_EQ(sketch_chunks(0), 0u);
  EXPECT_EQ(sketch_chunks(1), 1u);
  EXPECT_EQ(sketch_chunks(1024), 1u);
  EXPECT_EQ(sketch_chunks(1025), 2u);
}

TYPED_TEST(Sketch, bucketsOneByOneGiveTheBitsOfOneSpan) {
  const MadeRows<TypeParam> rows(1, 10'000);
  const std::span<const TypeParam> x = rows.row(0);
  for (const std::size_t m : kBins) {
    std::vector<float> whole(m), parts(m);
    const double square = sketch(x, kKey, 5, whole);
    double sum = 0;
    std::uint32_t chunk = 5;
    for (const auto& bucket : {x.first(3072), x.subspan(3072, 1024), x.subspan(4096)}) {
      sum += sketch(bucket, kKey, chunk, parts);
      chunk += sketch_chunks(bucket.size());
    }
    EXPECT_EQ(bits_of(parts), bits_of(whole)) << "m = " << m;
    EXPECT_NEAR(sum, square, 1e-9 * square);
  }
}

// Mean and variance of <z_x, z_y> over keys, against <x, y> and (||x||^2 ||y||^2 + <x, y>^2) / m.
void expect_unbiased(const std::vector<float>& x, const std::vector<float>& y, std::size_t m) {
  constexpr std::uint32_t kSteps = 600;
  double mean = 0, squares = 0;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    std::vector<float> of_x(m), of_y(m);
    sketch(x, sketch_key(3, step), 0, of_x);
    sketch(y, sketch_key(3, step), 0, of_y);
    const double product = dot(of_x, of_y);
    mean += product / kSteps;
    squares += product * product / kSteps;
  }
  const double exact = dot(x, y);
  const double variance = (dot(x, x) * dot(y, y) + exact * exact) / static_cast<double>(m);
  EXPECT_NEAR(mean, exact, 4 * std::sqrt(variance / kSteps)) << "m = " << m;
  const double ratio = (squares - mean * mean) / variance;
  EXPECT_GT(ratio, 0.65) << "m = " << m;
  EXPECT_LT(ratio, 1.35) << "m = " << m;
}

class SketchStatistics : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(bins, SketchStatistics, ::testing::Values(16, 128, 1024),
                         [](const auto& info) { return "m" + std::to_string(info.param); });

TEST_P(SketchStatistics, ofNormalNumbersAndConstantsAndColumns) {
  const MadeRows<float> rows(2, 32'768);
  std::vector<float> x, y;
  for (std::size_t k = 0; k < rows.n(); ++k) {
    x.push_back(rows.row(0)[k]);
    y.push_back(rows.row(1)[k] + 0.5f * x[k]);
  }
  const std::vector<float> constant(32'768, 1.0f);
  // One column of a matrix of 1024 columns, and two neighbours.
  std::vector<float> column(128 * 1024), columns(column.size());
  for (std::size_t k = 0; k < column.size(); k += 1024) {
    column[k] = 1;
    columns[k] = 0.5f;
    columns[k + 1] = -1;
  }
  for (const auto& [one, other] : {std::pair(&x, &y), {&x, &x}, {&column, &column}, {&column, &columns}})
    expect_unbiased(*one, *other, GetParam());
  expect_unbiased(constant, constant, GetParam());
}

}  // namespace
}  // namespace flockstep::kernels::cpu
