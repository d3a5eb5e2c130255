// The CUDA sweeps over one span, sketches, and the order of queues, on a GPU.
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "cuda_fixture.h"
#include "flockstep/error.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/reference.h"
#include "kernels/cuda/sketched_scale.h"

namespace flockstep::kernels {
namespace {

TEST_F(CudaTest, addSquare_isTheDoubleSum) {
  for (const Number type : kNumbers)
    for (const std::size_t n : cuda_lengths())
      for (const float factor : {1.0f, 1e30f, 1e-25f}) {
        const std::vector<float> values = normal_numbers(n, type, 3, factor);
        const OnDevice x(queue(), values, type, n % 4);
        DoublesOnDevice square(queue(), {0});
        queue().add_square(x.numbers(), square.data());
        const double expected = product(values, values);
        if (std::isfinite(expected)) {
          ASSERT_NEAR(square.values()[0], expected, 1e-12 * expected) << n;
        } else {
          ASSERT_FALSE(std::isfinite(square.values()[0]));
        }
      }
}

TEST_F(CudaTest, spans_areFilledConvertedAndScaled) {
  for (const std::size_t n : cuda_lengths())
    for (const Number from : kNumbers) {
      std::vector<float> values = normal_numbers(n, from, 5);
      values[n / 2] = std::numeric_limits<float>::infinity();
      if (n > 3) values[3] = std::numeric_limits<float>::quiet_NaN();
      const OnDevice x(queue(), values, from, n % 3);
      for (const Number to : kNumbers) {
        const OnDevice y(queue(), std::vector<float>(n), to, n % 4);
        queue().convert(x.numbers(), y.numbers());
        const std::vector<float> got = y.values();
        for (std::size_t k = 0; k < n; ++k) {
          const float expected = value_of(bits_of(static_cast<double>(values[k]), to), to);
          ASSERT_TRUE(got[k] == expected || (std::isnan(got[k]) && std::isnan(expected))) << k;
        }
      }
      const DoublesOnDevice factor(queue(), {1.0 / 3}), one(queue(), {1});
      const std::vector<std::byte> before = x.bytes();
      queue().scale(x.numbers(), one.data());
      ASSERT_EQ(x.bytes(), before);
      queue().scale(x.numbers(), factor.data());
      const std::vector<float> scaled = x.values();
      for (std::size_t k = 0; k < n; ++k) {
        const float expected =
            value_of(bits_of(static_cast<double>(static_cast<float>(1.0 / 3) * values[k]), from), from);
        ASSERT_TRUE(scaled[k] == expected || (std::isnan(scaled[k]) && std::isnan(expected))) << k;
      }
      queue().fill(x.numbers(), -1.5f);
      for (const float each : x.values()) ASSERT_EQ(each, -1.5f);
    }
}

TEST_F(CudaTest, axpy_hasTheBitsOfTheCpus) {
  for (const std::size_t n : cuda_lengths()) {
    const std::vector<float> x = normal_numbers(n, Number::float32, 1), y = normal_numbers(n, Number::float32, 2);
    std::vector<float> expected = y;
    cpu::axpy(0.3f, x, expected);
    const OnDevice dx(queue(), x, Number::float32, n % 3), dy(queue(), y, Number::float32, n % 2);
    queue().axpy(0.3f, dx.floats(), dy.floats());
    ASSERT_EQ(dy.values(), expected) << n;
  }
}

TEST_F(CudaTest, findNonFinite_findsOneAmongMany) {
  for (const Number type : kNumbers)
    for (const std::size_t n : cuda_lengths())
      for (const float bad : {1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> values = normal_numbers(n, type, 5);
        values[n - 1] = bad;
        const OnDevice x(queue(), values, type, n % 3);
        const Block found = queue().allocate(sizeof(std::uint32_t));
        queue().find_non_finite(x.numbers(), reinterpret_cast<std::uint32_t*>(found.get()));
        ASSERT_EQ(download(queue(), found.get(), 1)[0], std::byte{bad == 1.0f ? std::uint8_t{0} : std::uint8_t{1}})
            << n;
      }
}

TEST_F(CudaTest, models_areJoinedAndMovedAsOnTheCpu) {
  for (const std::size_t n : cuda_lengths()) {
    const std::vector<float> x = normal_numbers(n, Number::float32, 1), y = normal_numbers(n, Number::float32, 2);
    const OnDevice a(queue(), x, Number::float32, n % 2), b(queue(), y);
    std::vector<float> joined(n);
    for (std::size_t k = 0; k < n; ++k) joined[k] = y[k] + (x[k] - y[k]) / 4.0f;
    queue().join(a.floats(), b.floats(), 3);
    ASSERT_EQ(a.values(), joined) << n;
    ASSERT_EQ(b.values(), y);
    std::vector<float> again(n);
    for (std::size_t k = 0; k < n; ++k) again[k] = y[k] + (joined[k] - y[k]) / 3.0f;
    queue().join_and_swap(a.floats(), b.floats(), 2);
    ASSERT_EQ(a.values(), again);
    ASSERT_EQ(b.values(), joined);
    std::vector<float> moved(n);
    for (std::size_t k = 0; k < n; ++k) moved[k] = again[k] + joined[k];
    queue().move_to(a.floats(), b.floats());
    ASSERT_EQ(a.values(), moved);
    ASSERT_EQ(b.values(), std::vector<float>(n));
    queue().divide(a.floats(), 7);
    for (float& each : moved) each /= 7;
    ASSERT_EQ(a.values(), moved);
  }
}

std::vector<double> exact_sketch(const std::vector<float>& x, SketchKey key, std::uint32_t first_chunk, std::size_t m) {
  std::vector<double> z(m);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::uint64_t l = std::uint64_t{first_chunk} * kSketchChunk + k;
    const auto number = static_cast<double>(x[k]);
    z[sketch_bin(l, key, m)] += sketch_sign(l, key) == 0 ? number : -number;
  }
  return z;
}
// Over the norm of what was sketched, which a sketch has, too, on average: bins may cancel.
double distance(const std::vector<float>& z, const std::vector<double>& expected, const std::vector<float>& x) {
  double apart = 0;
  for (std::size_t k = 0; k < z.size(); ++k)
    apart += (static_cast<double>(z[k]) - expected[k]) * (static_cast<double>(z[k]) - expected[k]);
  return std::sqrt(apart / product(x, x));
}

TEST_F(CudaTest, sketch_isThatOfItsDefinition) {
  for (const Number type : kNumbers)
    for (const std::size_t m : {1, 16, 32, 256, 1024, 2048, 4096, 65'536})
      for (const std::size_t n : cuda_lengths()) {
        const auto first = static_cast<std::uint32_t>(n % 2 == 0 ? 0 : 4'000'000'000u + n);
        const SketchKey key = sketch_key(n, 7);
        const std::vector<float> values = normal_numbers(n, type, 9);
        const OnDevice x(queue(), values, type, n % 5);
        const OnDevice z(queue(), std::vector<float>(m, 1)), again(queue(), std::vector<float>(m, 1));
        DoublesOnDevice square(queue(), {0.5});
        queue().add_sketch(x.numbers(), key, first, z.floats(), square.data());
        queue().add_sketch(x.numbers(), key, first, again.floats(), square.data());
        std::vector<double> expected = exact_sketch(values, key, first, m);
        for (double& bin : expected) bin += 1;
        ASSERT_LT(distance(z.values(), expected, values), 1e-5) << n << " numbers, " << m << " bins";
        ASSERT_EQ(z.bytes(), again.bytes());
        ASSERT_NEAR(square.values()[0], 0.5 + 2 * product(values, values), 1e-11 * product(values, values));
      }
}

// What Python's operations do, in double.
struct Pass {
  std::optional<int> place = 2, limit = 3;
  std::optional<double> share = 1.0;
  double coefficient = 1.25, limit_value = INFINITY, left_out = 0;
  bool excludes = false, begins = false;
  float bad = 1;          // a number of the first bucket
  bool bad_here = false;  // or of this one
  std::size_t bins = 1024;
};

void expect_scaled(Queue& queue, std::size_t n, Number type, const Pass& pass) {
  std::vector<float> values = normal_numbers(n, type, 11);
  if (pass.bad_here) values[n / 2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> factors = {pass.left_out, 2.5, 0.3, pass.limit_value};
  const double first_norm = std::isfinite(pass.bad) ? 3.0 : NAN;
  const OnDevice bucket(queue, values, type, n % 3),
      z(queue, std::vector<float>(std::max<std::size_t>(pass.bins, 1), 1));
  const DoublesOnDevice table(queue, factors), norms(queue, {first_norm, -1, -1});
  const SketchKey key = sketch_key(3, 4);
  cuda::scale_sketched(queue, bucket.numbers(),
                       {.key = key, .first_chunk = 5, .z = z.floats().first(pass.bins), .begins = pass.begins},
                       {.factors = table.data(),
                        .coefficient = pass.coefficient,
                        .place = pass.place,
                        .share = pass.share,
                        .limit = pass.limit,
                        .excludes = pass.excludes},
                       norms.data(), 1);
  const double norm = std::sqrt(product(values, values));
  const double c = pass.place ? factors[2] : pass.coefficient;
  double factor = pass.share ? c * *pass.share : c / factors[1];
  if (pass.limit) {
    const double ratio = factors[3] / ((pass.place ? std::abs(c) : 1.0) * norm);
    if (ratio < 1) factor *= ratio;
  }
  const bool clears =
      (pass.excludes && !std::isfinite(first_norm)) || (!std::isfinite(norm) && (pass.left_out != 0 || pass.excludes));
  const std::vector<double> got_norms = norms.values();
  EXPECT_TRUE(std::isfinite(norm) ? std::abs(got_norms[1] - norm) <= 1e-12 * norm : !std::isfinite(got_norms[1]));
  EXPECT_EQ(got_norms[2], -1);
  const std::vector<float> got = bucket.values();
  for (std::size_t k = 0; k < n; ++k) {
    const double expected = clears ? 0 : static_cast<double>(values[k]) * factor;
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(got[k]));
    else
      ASSERT_NEAR(static_cast<double>(got[k]), expected,
                  (type == Number::float32 ? 1e-6 : 5e-3) * std::abs(expected) + 1e-7)
          << k;
  }
  if (pass.bins == 0 || pass.bad_here) return;
  std::vector<double> sketch = exact_sketch(values, key, 5, pass.bins);
  if (!pass.begins)
    for (double& bin : sketch) bin += 1;
  EXPECT_LT(distance(z.values(), sketch, values), 1e-5);
}

TEST_F(CudaTest, scaleSketched_doesWhatPythonsOperationsDo) {
  for (const Number type : kNumbers)
    for (const std::size_t n : {1, 1025, 30'001})
      for (const std::size_t bins : {0, 1, 32, 1024, 4096}) {
        expect_scaled(queue(), n, type, {.bins = bins});
        expect_scaled(queue(), n, type, {.begins = true, .bins = bins});
      }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Pass& pass : std::vector<Pass>{{.limit_value = 0.5},
                                            {.place = {}, .limit_value = 0.5},
                                            {.limit = {}},
                                            {.place = {}, .share = 1.0 / 3},
                                            {.share = {}},
                                            {.place = {}, .share = {}, .bins = 0},
                                            {.bad = nan},
                                            {.excludes = true, .bad = nan},
                                            {.excludes = true},
                                            {.bad_here = true},
                                            {.excludes = true, .bad_here = true},
                                            {.left_out = 1, .bad_here = true},
                                            {.left_out = 1}})
    expect_scaled(queue(), 5000, Number::float32, pass);
}

TEST_F(CudaTest, order_callsCopiesAndMarksComeInTurn) {
  const Block device = queue().allocate(4 << 20), host = queue().allocate_on_host(4 << 20);
  EXPECT_EQ(cuda::device_of(device.get()), 0);
  EXPECT_FALSE(cuda::device_of(host.get()));
  EXPECT_FALSE(cuda::device_of(&device));
  EXPECT_FALSE(cuda::bus_id(0).empty());
  EXPECT_EQ(queue().device(), "cuda:0");
  auto* const numbers = reinterpret_cast<float*>(host.get());
  queue().fill(Numbers(device.get(), 1 << 20, Number::float32), 2);
  queue().copy(host.get(), device.get(), 4 << 20);
  std::atomic<bool> seen = false;
  queue().call([&] {
    seen = numbers[0] == 2 && numbers[(1 << 20) - 1] == 2;
    numbers[5] = 11;
  });
  queue().copy(device.get(), host.get(), 4 << 20);
  wait_for(queue());
  EXPECT_TRUE(seen);
  float fifth = 0;
  const std::vector<std::byte> bytes = download(queue(), device.get() + 20, 4);
  std::memcpy(&fifth, bytes.data(), 4);
  EXPECT_EQ(fifth, 11);
}

TEST_F(CudaTest, order_aQueueThatFollowsAnotherSeesItsWork) {
  const auto other = cuda::make_queue(0);
  const Block x = queue().allocate(64 << 20), host = queue().allocate_on_host(4);
  wait_for(queue());
  for (int round = 1; round <= 20; ++round) {
    for (int repeat = 0; repeat < 5; ++repeat)
      queue().fill(Numbers(x.get(), 16 << 20, Number::float32), static_cast<float>(round));
    other->follow(queue());
    other->copy(host.get(), x.get() + (64 << 20) - 4, 4);
    queue().follow(*other);
    wait_for(*other);
    float last = 0;
    std::memcpy(&last, host.get(), 4);
    ASSERT_EQ(last, static_cast<float>(round));
  }
}

TEST_F(CudaTest, order_fromAnotherThreadAndOnAStreamOfSomebodyElse) {
  const auto mine = cuda::make_queue_on(0, queue().stream());
  const OnDevice x(queue(), std::vector<float>(1000, 1));
  std::function<bool()> done;
  std::thread([&] {
    mine->fill(x.numbers(), 3);
    done = mine->mark();
  }).join();
  wait_for(*mine);
  EXPECT_TRUE(done());
  EXPECT_EQ(x.values(), std::vector<float>(1000, 3));
}

TEST_F(CudaTest, order_aFunctionMayOwnTheLastOfABlock) {
  Block block = queue().allocate(1 << 20);
  const std::weak_ptr<std::byte> seen = block;
  queue().call([kept = std::move(block)] { ASSERT_NE(kept.get(), nullptr); });
  wait_for(queue());
  queue().call([] {});
  EXPECT_TRUE(seen.expired());
}

TEST_F(CudaTest, memoryThatIsNotThere_isRefusedInOneSentence) {
  try {
    queue().allocate(std::size_t{1} << 50);
    FAIL() << "a petabyte was there";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not enough memory on cuda:0 for 1125899906842624 bytes"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(cuda::make_queue(1000), Error);
}

}  // namespace
}  // namespace flockstep::kernels
