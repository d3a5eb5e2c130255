// The CUDA sweeps over rows against plain loops in double, on a GPU: Gram matrices, row statistics, weighted sums.
#include <limits>
#include <memory>

#include "cuda_fixture.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/reference.h"

namespace flockstep::kernels {
namespace {

using math::packed_index;
using math::packed_size;
using Matrix = std::vector<std::vector<float>>;

struct DeviceRows {
  DeviceRows(Queue& queue, const Matrix& values, Number type, std::size_t shift, bool equal_shift) : type(type) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      memory.push_back(
          std::make_unique<OnDevice>(queue, values[i], type, shift == 0 || equal_shift ? shift : (i + shift) % 5));
      pointers.push_back(memory.back()->numbers().data);
    }
    size = values[0].size();
  }
  Rows rows() const { return {pointers, size, type}; }

  Number type;
  std::size_t size;
  std::vector<std::unique_ptr<OnDevice>> memory;
  std::vector<const void*> pointers;
};

Matrix normal_rows(std::size_t workers, std::size_t n, Number type, std::vector<float> factors = {1}) {
  Matrix rows;
  for (std::size_t i = 0; i < workers; ++i)
    rows.push_back(normal_numbers(n, type, static_cast<std::uint32_t>(i + 1), factors[i % factors.size()]));
  return rows;
}

// Chains of 64 additions, each rounded to float.
double tolerance(double magnitudes) { return magnitudes * 4e-6; }

std::vector<double> gram_of(Queue& queue, const DeviceRows& rows, double before = 0) {
  DoublesOnDevice K(queue, std::vector<double>(packed_size(rows.pointers.size()), before));
  queue.add_gram(rows.rows(), K.data());
  return K.values();
}

void expect_gram(Queue& queue, const Matrix& values, Number type, std::size_t shift = 0, bool equal_shift = false,
                 double before = 0.25) {
  const DeviceRows rows(queue, values, type, shift, equal_shift);
  const std::vector<double> got = gram_of(queue, rows, before), got_again = gram_of(queue, rows, before);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const std::size_t place = packed_index(i, j);
      ASSERT_NEAR(got[place], before + product(values[i], values[j]),
                  tolerance(product(values[i], values[j], true)) + 4e-15 * before)
          << "P = " << values.size() << ", n = " << values[0].size() << ", i = " << i << ", j = " << j << ", shift "
          << shift << ", first number " << values[0][0];
      ASSERT_EQ(std::bit_cast<std::uint64_t>(got[place]), std::bit_cast<std::uint64_t>(got_again[place]));
    }
  }
}

TEST_F(CudaTest, gram_everyNumberOfRowsAndLength_isTheDoubleSum) {
  for (const Number type : kNumbers)
    for (const std::size_t workers : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 32, 33, 48, 64})
      for (const std::size_t n : cuda_lengths())
        if (n * workers * workers <= 300'000'000) expect_gram(queue(), normal_rows(workers, n, type), type);
}

// Blocks that take several chains one after the other.
TEST_F(CudaTest, gram_longRows_areTheDoubleSum) {
  if (cuda_lengths().back() < 100'003) GTEST_SKIP() << "too long for this device";
  expect_gram(queue(), normal_rows(2, 40'000'011, Number::float32), Number::float32);
  expect_gram(queue(), normal_rows(18, 1'200'007, Number::float32), Number::float32);
  expect_gram(queue(), normal_rows(18, 1'200'007, Number::bfloat16), Number::bfloat16);
}

TEST_F(CudaTest, gram_rowsThatBeginAnywhere_areTheDoubleSum) {
  for (const Number type : kNumbers)
    for (const std::size_t workers : {2, 5, 16, 19})
      for (const std::size_t n : {1, 5, 1025, 8195})
        for (const std::size_t shift : {1, 2, 3}) {
          expect_gram(queue(), normal_rows(workers, n, type), type, shift, false);
          expect_gram(queue(), normal_rows(workers, n, type), type, shift, true);
        }
}

TEST_F(CudaTest, gram_bitsDoNotDependOnWhereRowsBegin) {
  const Matrix values = normal_rows(5, 9001, Number::float32);
  std::vector<double> first;
  for (const std::size_t shift : {0, 1, 2}) {
    const DeviceRows rows(queue(), values, Number::float32, shift, shift == 1);
    const std::vector<double> K = gram_of(queue(), rows);
    if (shift == 0) first = K;
    EXPECT_EQ(K, first);
  }
}

TEST_F(CudaTest, gram_squaresThatDoNotFitAFloat_areTakenInDouble) {
  for (const Number type : {Number::float32, Number::bfloat16})
    for (const std::vector<float>& factors :
         std::vector<std::vector<float>>{{1e-25f}, {1e-19f}, {1e19f}, {1e30f}, {1e30f, 1, 1e-25f, 1e-20f, 1e18f}})
      for (const std::size_t workers : {3, 5, 18})
        for (const std::size_t n : {7, 2051})
          expect_gram(queue(), normal_rows(workers, n, type, factors), type, 0, false, 0);
}

TEST_F(CudaTest, gram_aNumberThatIsNotFinite_showsInItsRowAlone) {
  for (const Number type : kNumbers)
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
      for (const std::size_t workers : {6, 20}) {
        Matrix values = normal_rows(workers, 2077, type);
        values[4][2076] = bad;
        const std::vector<double> got = gram_of(queue(), DeviceRows(queue(), values, type, 0, false));
        for (std::size_t i = 0; i < workers; ++i)
          for (std::size_t j = 0; j <= i; ++j)
            ASSERT_EQ(std::isfinite(got[packed_index(i, j)]), i != 4 && j != 4) << i << " " << j;
      }
}

void expect_statistics(Queue& queue, const Matrix& values, Number type, std::size_t shift) {
  const std::size_t workers = values.size(), n = values[0].size();
  const DeviceRows rows(queue, values, type, shift, false);
  DoublesOnDevice d(queue, std::vector<double>(workers, 0.5)), q(queue, std::vector<double>(workers, 0.25));
  queue.add_row_statistics(rows.rows(), d.data(), q.data());
  const std::vector<double> got_d = d.values(), got_q = q.values();
  std::vector<double> sums(n), magnitudes(n);
  for (const auto& row : values)
    for (std::size_t k = 0; k < n; ++k) {
      sums[k] += static_cast<double>(row[k]);
      magnitudes[k] += std::abs(static_cast<double>(row[k]));
    }
  for (std::size_t i = 0; i < workers; ++i) {
    double expected = 0, size = 0;
    for (std::size_t k = 0; k < n; ++k) {
      expected += static_cast<double>(values[i][k]) * sums[k];
      size += std::abs(static_cast<double>(values[i][k])) * magnitudes[k];
    }
    ASSERT_NEAR(got_d[i], 0.5 + expected, tolerance(size) + 1e-15) << workers << " rows of " << n << ", row " << i;
    ASSERT_NEAR(got_q[i], 0.25 + product(values[i], values[i]), tolerance(product(values[i], values[i])) + 1e-15)
        << workers << " rows of " << n << ", row " << i;
  }
}

TEST_F(CudaTest, rowStatistics_everyNumberOfRowsAndLength_isTheDoubleSum) {
  for (const Number type : kNumbers)
    for (const std::size_t workers : {1, 3, 8, 16, 17, 65, 448})
      for (const std::size_t n : cuda_lengths())
        if (n * workers <= 4'000'000) expect_statistics(queue(), normal_rows(workers, n, type), type, workers % 4);
}

TEST_F(CudaTest, rowStatistics_longRows_areTheDoubleSum) {
  if (cuda_lengths().back() < 100'003) GTEST_SKIP() << "too long for this device";
  expect_statistics(queue(), normal_rows(17, 600'011, Number::float32), Number::float32, 0);
}

TEST_F(CudaTest, rowStatistics_squaresThatDoNotFitAFloat_areTakenInDouble) {
  for (const std::vector<float>& factors :
       std::vector<std::vector<float>>{{1e-25f}, {1e30f}, {1e30f, 1, 1e-25f}, {0, 1}})
    for (const std::size_t workers : {3, 18})
      for (const std::size_t n : {7, 700})
        expect_statistics(queue(), normal_rows(workers, n, Number::float32, factors), Number::float32, 0);
}

TEST_F(CudaTest, weightedSum_hasTheBitsOfTheCpus) {
  for (const std::size_t workers : {1, 2, 3, 5, 8, 16, 33, 448})
    for (const std::size_t n : cuda_lengths()) {
      if (n * workers > 2'000'000) continue;
      const Matrix values = normal_rows(workers, n, Number::float32);
      std::vector<double> coefficients(workers);
      for (std::size_t i = 0; i < workers; ++i)
        coefficients[i] = i % 3 == 1 ? 0 : std::ldexp(0.1 + 0.37 * static_cast<double>(i), i % 5 == 4 ? -180 : 0);
      std::vector<const float*> host;
      for (const auto& row : values) host.push_back(row.data());
      std::vector<float> expected(n);
      cpu::weighted_sum(host, coefficients, expected);
      for (const std::size_t shift : {0, 3}) {
        const DeviceRows rows(queue(), values, Number::float32, shift, false);
        const DoublesOnDevice c(queue(), coefficients);
        const OnDevice out(queue(), std::vector<float>(n, 7), Number::float32, shift);
        queue().weighted_sum(rows.rows(), c.data(), out.numbers());
        ASSERT_EQ(out.bytes(), packed(expected, Number::float32)) << workers << " rows of " << n << ", shift " << shift;
      }
    }
}

TEST_F(CudaTest, weightedSum_ofEveryFormatIntoEveryFormat_isRoundedOnce) {
  for (const Number from : kNumbers)
    for (const Number to : kNumbers)
      for (const std::size_t n : {1, 7, 1030, 4099})
        for (const std::size_t shift : {0, 1}) {
          const Matrix values = normal_rows(5, n, from);
          const std::vector<double> coefficients = {0.3, 0, -1.7, 1e-3, 20};
          const DeviceRows rows(queue(), values, from, shift, false);
          const DoublesOnDevice c(queue(), coefficients);
          const OnDevice out(queue(), std::vector<float>(n, 7), to, shift);
          queue().weighted_sum(rows.rows(), c.data(), out.numbers());
          const std::vector<float> got = out.values();
          for (std::size_t k = 0; k < n; ++k) {
            double sum = 0;
            for (std::size_t i = 0; i < 5; ++i)
              sum = std::fma(with_float_precision(coefficients[i]), static_cast<double>(values[i][k]), sum);
            ASSERT_EQ(got[k], value_of(bits_of(sum, to), to)) << k;
          }
        }
}

TEST_F(CudaTest, weightedSum_intoOneOfItsRows_andWithoutRowsThatCountNothing) {
  Matrix values = normal_rows(3, 5003, Number::float32);
  values[1][77] = std::numeric_limits<float>::quiet_NaN();
  const DeviceRows rows(queue(), values, Number::float32, 0, false);
  const DoublesOnDevice c(queue(), {0.5, 0, 2}), none(queue(), {0, 0, 0});
  queue().weighted_sum(rows.rows(), c.data(), rows.memory[2]->numbers());
  const std::vector<float> got = rows.memory[2]->values();
  for (std::size_t k = 0; k < got.size(); ++k)
    ASSERT_EQ(got[k],
              static_cast<float>(0.5 * static_cast<double>(values[0][k]) + 2.0 * static_cast<double>(values[2][k])));
  queue().weighted_sum(rows.rows(), none.data(), rows.memory[0]->numbers());
  for (const float each : rows.memory[0]->values()) ASSERT_EQ(each, 0);
}

}  // namespace
}  // namespace flockstep::kernels
