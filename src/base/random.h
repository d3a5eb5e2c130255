// Random numbers that are the same on every platform and need no state to resume.
//
// Philox4x32-10 is a function from (key, counter) to four 32-bit words. The seed is the key; the counter holds who
// draws (worker), what for (purpose), when (step) and how many so far. So a stream can be opened anywhere, in any
// order, and a resumed run draws what the uninterrupted one would have drawn. Only exactly rounded operations are used,
// no libm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace flockstep::base {

// One application of Philox4x32-10.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// What a stream is drawn for. Values are part of the results: append, never renumber.
enum class Purpose : std::uint32_t {
  initial_model = 0,
  data = 1,
  straggler_choice = 2,
  jitter = 3,
  schedule = 4,
  test = 5,
  fault_noise = 6,
  appointment = 7,
  partner = 8,
  torch_generator = 9,
  fixed_data = 10,  // what is the same in all runs, such as what quality is measured on
  sketch = 11,      // keys of count sketches: kernels/sketch.h
};

class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose, std::uint32_t worker = 0, std::uint32_t step = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter_{0, step, worker, static_cast<std::uint32_t>(purpose)} {}

  std::uint32_t bits();
  // Uniform in [0, 1), 53 bits.
  double uniform();
  // Uniform in 0 .. bound-1, without bias.
  std::uint32_t below(std::uint32_t bound);
  // Standard normal.
  double normal();
  // exp(sigma * normal - sigma^2/2): a positive factor with mean one.
  double lognormal_mean_one(double sigma);
  // Fills `out` with uniform numbers in [low, high), 24 bits each; starts on a fresh block of the counter.
  void fill_uniform(std::span<float> out, float low, float high);

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  std::size_t left_ = 0;
};

}  // namespace flockstep::base
