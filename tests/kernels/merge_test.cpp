// The sweeps that mix models, against loops in double precision.
#include "kernels/cpu/merge.h"

#include "fixture.h"

namespace flockstep::kernels::cpu {
namespace {

constexpr double kRounding = static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;

// Calls f(rows, before) for three rows of every length and alignment; `before` keeps the numbers as they were.
void on_all_rows(const std::function<void(MadeRows<float>&, const MadeRows<float>&)>& f) {
  for (const std::size_t n : lengths())
    for (std::size_t shift = 0; shift < 4; ++shift) {
      MadeRows<float> rows(3, n, shift);
      const MadeRows<float> before(3, n, shift);
      SCOPED_TRACE(n);
      f(rows, before);
    }
}

// Row i is what `expected` says, up to so many roundings of numbers as large as the largest that went in.
void expect_row(const MadeRows<float>& rows, std::size_t i, const MadeRows<float>& before, int roundings,
                const std::function<double(std::size_t)>& expected) {
  for (std::size_t k = 0; k < rows.n(); ++k) {
    double magnitude = std::abs(expected(k));
    for (std::size_t j = 0; j < 3; ++j) magnitude += before.magnitude(j, k);
    ASSERT_NEAR(rows.row(i)[k], expected(k), roundings * kRounding * magnitude) << "row " << i << ", at " << k;
  }
}

TEST(Merge, divide) {
  on_all_rows([](MadeRows<float>& rows, const MadeRows<float>& before) {
    divide(rows.writable(0), 7);
    expect_row(rows, 0, before, 1, [&](std::size_t k) { return before.row(0)[k] / 7.0; });
  });
}

TEST(Merge, join) {
  for (const int members : {1, 2, 3, 16})
    on_all_rows([&](MadeRows<float>& rows, const MadeRows<float>& before) {
      join(rows.writable(0), rows.row(1), members);
      expect_row(rows, 0, before, 3, [&](std::size_t k) {
        return (members * static_cast<double>(before.row(1)[k]) + before.row(0)[k]) / (members + 1);
      });
      expect_row(rows, 1, before, 0, [&](std::size_t k) { return before.row(1)[k]; });
    });
}

TEST(Merge, joinAndSwap_isJoinToTheBitAndKeepsTheModel) {
  for (const int members : {1, 2, 3, 16})
    on_all_rows([&](MadeRows<float>& rows, const MadeRows<float>& before) {
      std::vector<float> joined(before.row(0).begin(), before.row(0).end());
      join(joined, before.row(1), members);
      join_and_swap(rows.writable(0), rows.writable(1), members);
      expect_row(rows, 0, before, 0, [&](std::size_t k) { return joined[k]; });
      expect_row(rows, 1, before, 0, [&](std::size_t k) { return before.row(0)[k]; });
    });
}

TEST(Merge, moveTo_leavesZeros) {
  on_all_rows([](MadeRows<float>& rows, const MadeRows<float>& before) {
    move_to(rows.writable(0), rows.writable(1));
    expect_row(rows, 0, before, 1,
               [&](std::size_t k) { return static_cast<double>(before.row(0)[k]) + before.row(1)[k]; });
    expect_row(rows, 1, before, 0, [](std::size_t) { return 0.0; });
  });
}

}  // namespace
}  // namespace flockstep::kernels::cpu
