#include <vector>

#include "fixture.h"

namespace flockstep::kernels::cpu::row_statistics_test {
namespace {

template <typename T>
class RowStatistics : public ::testing::Test {};
TYPED_TEST_SUITE(RowStatistics, NumberTypes);

template <typename T>
void expect_reference(const MadeRows<T>& rows) {
  const std::size_t workers = rows.workers();
  std::vector<double> d(workers, -1.0), q(workers, -1.0), expected_d(workers), expected_q(workers);
  row_statistics(rows.pointers(), rows.n(), d, q);
  reference::row_statistics(rows.pointers(), rows.n(), std::span<double>(expected_d), std::span<double>(expected_q));
  std::vector<double> column(rows.n());
  for (std::size_t i = 0; i < workers; ++i)
    for (std::size_t k = 0; k < rows.n(); ++k) column[k] += rows.magnitude(i, k);
  for (std::size_t i = 0; i < workers; ++i) {
    double with_sum = 0, with_self = 0;
    for (std::size_t k = 0; k < rows.n(); ++k) {
      with_sum += rows.magnitude(i, k) * column[k];
      with_self += rows.magnitude(i, k) * rows.magnitude(i, k);
    }
    // Three roundings more than a Gram product, in the sum of a column.
    ASSERT_NEAR(d[i], expected_d[i], tolerance(with_sum) * 1.25) << "P = " << workers << ", n = " << rows.n();
    ASSERT_NEAR(q[i], expected_q[i], tolerance(with_self)) << "P = " << workers << ", n = " << rows.n();
  }
}

TYPED_TEST(RowStatistics, matchTheReferenceForRowsOfAllShapesAndMagnitudes) {
  for_all_rows<TypeParam>(5, kAllMagnitudes, expect_reference<TypeParam>);
  for_many_rows<TypeParam>({1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 300}, expect_reference<TypeParam>);
  on_every_target([] {
    for (const std::vector<float>& factors : kAllMagnitudes)
      expect_reference(MadeRows<TypeParam>(300, 1031).scaled(factors));
  });
  for (const std::size_t workers : {3, 300}) expect_reference(MadeRows<TypeParam>(workers, 10'007));
}

// Each square fits a float, and their sum over the rows' common direction does not.
TEST(RowStatisticsOverflow, manyEqualRowsBelowTheLimitMatchTheReference) {
  const std::vector<float> row(100, 1e18f);
  const std::vector<const float*> rows(300, row.data());
  std::vector<double> d(300), q(300);
  row_statistics(rows, 100, d, q);
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_NEAR(d[i] / 3e40, 1, 1e-6);
    EXPECT_NEAR(q[i] / 1e38, 1, 1e-6);
  }
}

// The columns add up to something small although their parts are large: a float sum would have lost it.
TEST(RowStatisticsAccuracy, columnsThatNearlyCancelKeepWhatIsLeft) {
  constexpr std::size_t kWorkers = 300, kLength = 64;
  std::vector<std::vector<float>> memory(kWorkers, std::vector<float>(kLength));
  std::vector<const float*> rows;
  for (std::size_t i = 0; i < kWorkers; ++i) {
    std::ranges::fill(memory[i], i % 2 == 0 ? 1.0f : -1.0f);
    rows.push_back(memory[i].data());
  }
  std::ranges::fill(memory[7], -1.0f + 0x1p-20f);
  on_every_target([&] {
    std::vector<double> d(kWorkers), q(kWorkers);
    row_statistics(rows, kLength, d, q);
    EXPECT_NEAR(d[0], 0x1p-20 * kLength, 0x1p-20 * kLength * 1e-6);
  });
}

}  // namespace
}  // namespace flockstep::kernels::cpu::row_statistics_test
