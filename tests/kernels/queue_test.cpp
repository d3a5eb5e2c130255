// The CPU's queue: every operation is the kernel's to the bit, and says what it touches.
#include "kernels/cpu/queue.h"

#include <algorithm>
#include <array>
#include <bit>

#include "fixture.h"
#include "flockstep/error.h"
#include "kernels/cpu/merge.h"
#include "support/refusal.h"

namespace flockstep::kernels::cpu {
namespace {

constexpr std::size_t kSize = 1037;
constexpr double kFloats = kSize * sizeof(float);  // bytes of one span

// A queue, and what it has charged for since it was last asked.
class Charged {
 public:
  Queue& operator*() { return queue_; }
  Queue* operator->() { return &queue_; }
  std::vector<double> take() { return std::exchange(charges_, {}); }

 private:
  std::vector<double> charges_;
  Queue queue_{[this](double bytes) { charges_.push_back(bytes); }};
};

using Charges = std::vector<double>;

template <typename T>
constexpr Number number_of = std::is_same_v<T, float> ? Number::float32 : Number::bfloat16;

template <typename T>
std::vector<const void*> untyped(const MadeRows<T>& rows) {
  return {rows.pointers().begin(), rows.pointers().end()};
}

std::vector<float> copy_of(std::span<const float> numbers) { return {numbers.begin(), numbers.end()}; }

void expect_same(std::span<const float> got, std::span<const float> expected) {
  ASSERT_EQ(bits_of(got), bits_of(expected));
}

TEST(Queue, memory_isAlignedAndZeroed) {
  Queue queue;
  EXPECT_EQ(queue.device(), "cpu");
  EXPECT_EQ(queue.stream(), nullptr);
  for (const std::size_t bytes : {0, 1, 64, 100'000}) {
    for (const Block& block : {queue.allocate(bytes), queue.allocate_on_host(bytes)}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % 64, 0u);
      EXPECT_TRUE(std::all_of(block.get(), block.get() + bytes, [](std::byte byte) { return byte == std::byte{}; }));
    }
  }
}

TEST(Queue, memoryThatIsNotThere_isOneSentence) {
  EXPECT_NE(test::refusal(ErrorCode::unavailable, [] { Queue().allocate(std::size_t{1} << 62); }), "");
}

TEST(Queue, everythingIsDoneAtOnce) {
  Queue queue, other;
  bool is_called = false;
  queue.follow(other);
  queue.call([&] { is_called = true; });
  EXPECT_TRUE(is_called);
  EXPECT_TRUE(queue.mark()());
}

TEST(Queue, copyAndFill) {
  Charged queue;
  const MadeRows<float> rows(1, kSize);
  std::vector<float> to(kSize);
  queue->copy(to.data(), rows.row(0).data(), rows.row(0).size_bytes());
  expect_same(to, rows.row(0));
  queue->fill(std::span(to), 3);
  expect_same(to, std::vector<float>(kSize, 3));
  std::vector<BFloat16> narrow(kSize);
  queue->fill(std::span(narrow), 3);
  EXPECT_TRUE(std::ranges::all_of(narrow, [](BFloat16 value) { return to_float(value) == 3; }));
  queue->copy(nullptr, nullptr, 0);
  EXPECT_EQ(queue.take(), (Charges{2 * kFloats, kFloats, kFloats / 2, 0}));
}

TEST(Queue, convert) {
  Charged queue;
  const MadeRows<float> rows(1, kSize);
  std::vector<BFloat16> narrowed(kSize), expected(kSize);
  narrow(rows.row(0), expected);
  queue->convert(rows.row(0), std::span(narrowed));
  for (std::size_t k = 0; k < kSize; ++k) ASSERT_EQ(narrowed[k].bits, expected[k].bits);
  EXPECT_EQ(queue.take(), Charges{1.5 * kFloats});

  std::vector<float> widened(kSize), expected_floats(kSize);
  widen(narrowed, expected_floats);
  queue->convert(std::span<const BFloat16>(narrowed), std::span(widened));
  expect_same(widened, expected_floats);
  EXPECT_EQ(queue.take(), Charges{1.5 * kFloats});
}

template <typename T>
class QueueRows : public ::testing::Test {};
TYPED_TEST_SUITE(QueueRows, NumberTypes);

// Beside few rows, more than are kept without memory from the heap.
TYPED_TEST(QueueRows, addGram) {
  for (const std::size_t workers : {1, 8, 30, 70}) {
    Charged queue;
    const MadeRows<TypeParam> rows(workers, kSize);
    std::vector<double> expected(packed_size(workers)), K(expected.size(), 0.5);
    gram(rows.pointers(), kSize, expected);
    queue->add_gram({untyped(rows), kSize, number_of<TypeParam>}, K.data());
    for (std::size_t i = 0; i < K.size(); ++i) ASSERT_EQ(K[i], 0.5 + expected[i]);
    const double reads = std::max(1.0, static_cast<double>(workers) / 15);
    EXPECT_EQ(queue.take(), Charges{reads * static_cast<double>(workers * kSize * sizeof(TypeParam))});
  }
}

TYPED_TEST(QueueRows, addRowStatistics) {
  for (const std::size_t workers : {1, 8, 70}) {
    Charged queue;
    const MadeRows<TypeParam> rows(workers, kSize);
    std::vector<double> expected_d(workers), expected_q(workers), d(workers, 0.5), q(workers, 0.25);
    row_statistics(rows.pointers(), kSize, expected_d, expected_q);
    queue->add_row_statistics({untyped(rows), kSize, number_of<TypeParam>}, d.data(), q.data());
    for (std::size_t i = 0; i < workers; ++i) {
      ASSERT_EQ(d[i], 0.5 + expected_d[i]);
      ASSERT_EQ(q[i], 0.25 + expected_q[i]);
    }
    EXPECT_EQ(queue.take(), Charges{static_cast<double>(workers * kSize * sizeof(TypeParam))});
  }
}

// A row that does not count is charged for, too.
TYPED_TEST(QueueRows, weightedSum) {
  for (const std::size_t workers : {1, 8, 70}) {
    Charged queue;
    const MadeRows<TypeParam> rows(workers, kSize);
    std::vector<double> coefficients(workers, 0.3);
    if (workers > 1) coefficients[1] = 0;
    std::vector<float> expected(kSize), out(kSize);
    weighted_sum(rows.pointers(), std::span<const double>(coefficients), expected);
    queue->weighted_sum({untyped(rows), kSize, number_of<TypeParam>}, coefficients.data(), std::span(out));
    expect_same(out, expected);
    EXPECT_EQ(queue.take(), Charges{static_cast<double>(workers * kSize * sizeof(TypeParam)) + kFloats});
  }
}

TYPED_TEST(QueueRows, squareOfOneSpan) {
  Charged queue;
  const MadeRows<TypeParam> rows(1, kSize);
  double expected = 0, square = 0.5;
  if constexpr (std::is_same_v<TypeParam, float>)
    expected = dot(rows.row(0), rows.row(0));
  else
    gram(rows.pointers(), kSize, std::span(&expected, 1));
  queue->add_square(rows.row(0), &square);
  EXPECT_EQ(square, 0.5 + expected);
  EXPECT_EQ(queue.take(), Charges{kSize * sizeof(TypeParam)});
}

TYPED_TEST(QueueRows, addSketch) {
  Charged queue;
  const MadeRows<TypeParam> rows(1, kSize);
  const SketchKey key = sketch_key(1, 2);
  std::vector<float> expected(64, 1), z(64, 1);
  double square = 0.5;
  const double expected_square = sketch(rows.row(0), key, 3, expected);
  queue->add_sketch(rows.row(0), key, 3, z, &square);
  expect_same(z, expected);
  EXPECT_EQ(square, 0.5 + expected_square);
  EXPECT_EQ(queue.take(), Charges{kSize * sizeof(TypeParam)});
}

TYPED_TEST(QueueRows, findNonFinite) {
  Charged queue;
  MadeRows<TypeParam> rows(1, kSize);
  std::uint32_t found = 0;
  queue->find_non_finite(std::as_const(rows).row(0), &found);
  EXPECT_EQ(found, 0u);
  rows.writable(0)[kSize - 1] = from_float<TypeParam>(std::numeric_limits<float>::infinity());
  queue->find_non_finite(std::as_const(rows).row(0), &found);
  EXPECT_EQ(found, 1u);
  rows.writable(0)[kSize - 1] = from_float<TypeParam>(1);
  queue->find_non_finite(std::as_const(rows).row(0), &found);
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(queue.take(), Charges(3, kSize * sizeof(TypeParam)));
}

TEST(Queue, scale) {
  Charged queue;
  const MadeRows<float> rows(1, kSize);
  for (const double factor : {0.3, 1.0, 0.0, 1e-60}) {
    std::vector<float> x = copy_of(rows.row(0)), expected = x;
    const float* const row = expected.data();
    weighted_sum(std::span(&row, 1), std::span(&factor, 1), expected);
    queue->scale(std::span(x), &factor);
    expect_same(x, expected);
    EXPECT_EQ(queue.take(), Charges{2 * kFloats});
  }
}

TEST(Queue, scaleByOne_leavesEverySign) {
  std::vector<float> x{-0.0f, 1, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> expected = x;
  const double one = 1;
  Queue().scale(std::span(x), &one);
  expect_same(x, expected);
}

TEST(Queue, sweepsOverModels) {
  using Floats = std::vector<float>;
  Charged queue;
  const MadeRows<float> rows(2, kSize);
  const auto check = [&](const auto& on_queue, const auto& kernel, double sweeps) {
    std::array<Floats, 2> got{copy_of(rows.row(0)), copy_of(rows.row(1))}, expected = got;
    on_queue(got[0], got[1]);
    kernel(expected[0], expected[1]);
    for (std::size_t i = 0; i < 2; ++i) expect_same(got[i], expected[i]);
    EXPECT_EQ(queue.take(), Charges{sweeps * kFloats});
  };
  check([&](Floats& x, Floats& y) { queue->axpy(0.3f, x, y); }, [](Floats& x, Floats& y) { axpy(0.3f, x, y); }, 3);
  for (const float divisor : {1.0f, 7.0f})
    check([&](Floats& x, Floats&) { queue->divide(x, divisor); }, [&](Floats& x, Floats&) { divide(x, divisor); }, 2);
  check([&](Floats& x, Floats& y) { queue->join(x, y, 3); }, [](Floats& x, Floats& y) { join(x, y, 3); }, 3);
  check([&](Floats& x, Floats& y) { queue->join_and_swap(x, y, 3); },
        [](Floats& x, Floats& y) { join_and_swap(x, y, 3); }, 4);
  check([&](Floats& x, Floats& y) { queue->move_to(x, y); }, [](Floats& x, Floats& y) { move_to(x, y); }, 4);
}

TEST(QueueDeathTest, float16IsNotForTheCpu) {
  Queue queue;
  std::array<std::uint16_t, 4> numbers{};
  std::uint32_t found = 0;
  EXPECT_DEATH(queue.find_non_finite({numbers.data(), numbers.size(), Number::float16}, &found), "the CPU");
  EXPECT_DEATH(queue.fill({numbers.data(), numbers.size(), Number::float16}, 1), "the CPU");
}

}  // namespace
}  // namespace flockstep::kernels::cpu
