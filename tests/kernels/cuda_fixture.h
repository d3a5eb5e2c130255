// What the tests of CUDA kernels share: numbers of three formats on the host, the same on a device at a chosen
// misalignment, and a queue that can be waited for. Tests skip themselves, with the reason, where there is no device.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/queue.h"
#include "kernels/types.h"

namespace flockstep::kernels {

inline float half_to_float(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  float magnitude = 0;
  if (exponent == 31)
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  else
    magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// To nearest even.
inline std::uint16_t float_to_half(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (magnitude >= 65520) return sign | 0x7C00;
  if (magnitude < 0x1p-14) return sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24));
  int exponent = 0;
  const double mantissa = std::nearbyint(std::ldexp(std::frexp(magnitude, &exponent), 11));
  return sign | static_cast<std::uint16_t>(((exponent + 14) << 10) + static_cast<int>(mantissa) - 1024);
}

// A double rounded once to the bits of a format, and what these mean.
inline std::uint32_t bits_of(double value, Number type) {
  if (type == Number::float32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (type == Number::float16) return float_to_half(value);
  const auto near = static_cast<float>(value);
  if (std::isnan(near) || static_cast<double>(near) == value || !std::isfinite(near)) return to_bfloat16(near).bits;
  // Cut off, with the last bit set: rounding that to 16 bits is rounding once.
  const float cut = std::abs(static_cast<double>(near)) > std::abs(value) ? std::nextafter(near, 0.0f) : near;
  return to_bfloat16(std::bit_cast<float>(std::bit_cast<std::uint32_t>(cut) | 1u)).bits;
}
inline float value_of(std::uint32_t bits, Number type) {
  if (type == Number::float32) return std::bit_cast<float>(bits);
  if (type == Number::float16) return half_to_float(static_cast<std::uint16_t>(bits));
  return to_float(BFloat16{static_cast<std::uint16_t>(bits)});
}

// Normal numbers times a factor, as the format holds them.
inline std::vector<float> normal_numbers(std::size_t n, Number type, std::uint32_t seed, float factor = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(n);
  for (float& number : numbers)
    number = value_of(bits_of(static_cast<double>(normal(generator)) * static_cast<double>(factor), type), type);
  return numbers;
}

inline std::vector<std::byte> packed(std::span<const float> numbers, Number type) {
  std::vector<std::byte> bytes(numbers.size() * size_of(type));
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const std::uint32_t bits = bits_of(static_cast<double>(numbers[k]), type);
    std::memcpy(bytes.data() + k * size_of(type), &bits, size_of(type));
  }
  return bytes;
}
inline std::vector<float> unpacked(std::span<const std::byte> bytes, Number type) {
  std::vector<float> numbers(bytes.size() / size_of(type));
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + k * size_of(type), size_of(type));
    numbers[k] = value_of(bits, type);
  }
  return numbers;
}

// Waits until all that was asked for has been done.
inline void wait_for(Queue& queue) {
  const auto done = queue.mark();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the device hangs";
    std::this_thread::yield();
  }
}

inline std::vector<std::byte> download(Queue& queue, const void* from, std::size_t bytes) {
  const Block host = queue.allocate_on_host(bytes);
  queue.copy(host.get(), from, bytes);
  wait_for(queue);
  return {host.get(), host.get() + bytes};
}
inline void upload(Queue& queue, void* to, std::span<const std::byte> bytes) {
  const Block host = queue.allocate_on_host(bytes.size());
  std::copy(bytes.begin(), bytes.end(), host.get());
  queue.copy(to, host.get(), bytes.size());
  wait_for(queue);
}

// Numbers on the device that begin `offset` numbers after an aligned address. What lies on both sides of them is
// checked to stay as it was.
class OnDevice {
 public:
  OnDevice(Queue& queue, std::span<const float> numbers, Number type = Number::float32, std::size_t offset = 0)
      : queue_(queue), type_(type), size_(numbers.size()), begin_((kMargin + offset) * size_of(type)) {
    const std::size_t bytes = begin_ + (size_ + kMargin) * size_of(type);
    std::vector<std::byte> image(bytes, std::byte{0x5A});
    const std::vector<std::byte> data = packed(numbers, type);
    std::copy(data.begin(), data.end(), image.begin() + static_cast<std::ptrdiff_t>(begin_));
    block_ = queue.allocate(bytes);
    upload(queue, block_.get(), image);
  }

  Numbers numbers() const { return {block_.get() + begin_, size_, type_}; }
  std::span<float> floats() const { return {reinterpret_cast<float*>(block_.get() + begin_), size_}; }
  std::vector<std::byte> bytes() const {
    const std::size_t end = begin_ + size_ * size_of(type_);
    const std::vector<std::byte> image = download(queue_, block_.get(), end + kMargin * size_of(type_));
    for (std::size_t k = 0; k < image.size(); ++k)
      EXPECT_TRUE((k >= begin_ && k < end) || image[k] == std::byte{0x5A}) << "written beside its place, at " << k;
    return {image.begin() + static_cast<std::ptrdiff_t>(begin_), image.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  std::vector<float> values() const { return unpacked(bytes(), type_); }

 private:
  static constexpr std::size_t kMargin = 16;
  Queue& queue_;
  Number type_;
  std::size_t size_, begin_;
  Block block_;
};

// Doubles on the device.
class DoublesOnDevice {
 public:
  DoublesOnDevice(Queue& queue, const std::vector<double>& values)
      : queue_(queue), size_(values.size()), block_(queue.allocate(values.size() * sizeof(double))) {
    upload(queue, block_.get(), std::as_bytes(std::span(values)));
  }
  double* data() const { return reinterpret_cast<double*>(block_.get()); }
  std::vector<double> values() const {
    const std::vector<std::byte> bytes = download(queue_, block_.get(), size_ * sizeof(double));
    std::vector<double> values(size_);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  Queue& queue_;
  std::size_t size_;
  Block block_;
};

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cuda::why_unavailable(); !why.empty()) GTEST_SKIP() << why;
    queue_ = cuda::make_queue(0);
  }
  Queue& queue() { return *queue_; }

 private:
  std::unique_ptr<Queue> queue_;
};

inline constexpr Number kNumbers[] = {Number::float32, Number::bfloat16, Number::float16};

// Around vectors, chains and blocks.
inline std::vector<std::size_t> cuda_lengths() { return {1, 3, 4, 8, 31, 127, 128, 1025, 2048, 8192, 10'007, 100'003}; }

inline double product(const std::vector<float>& x, const std::vector<float>& y, bool magnitudes = false) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double each = static_cast<double>(x[k]) * static_cast<double>(y[k]);
    sum += magnitudes ? std::abs(each) : each;
  }
  return sum;
}

}  // namespace flockstep::kernels
