// Workers that err on purpose: they send something else than their gradient, or read another worker's data.
//
// What a rule for combining gradients is worth shows when a worker is wrong, so wrong workers can be ordered, and come
// out the same each time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace flockstep::train {

enum class FaultKind {
  scale,   // sends `value` times its gradient
  noise,   // sends normal noise, `value` times as long as its gradient
  zeros,   // sends zeros
  nan,     // one number is NaN, in step `value` (counted from 1, as in metrics.jsonl) or in every step (0)
  copies,  // reads the data of worker `value`
};

struct Fault {
  int worker;
  FaultKind kind;
  double value;
  std::int64_t first_step = 1, last_step = kEveryStep;  // counted from 1, as in metrics.jsonl

  static constexpr std::int64_t kEveryStep = std::numeric_limits<std::int64_t>::max();
};

struct FaultOptions {
  std::vector<Fault> faulty;  // applied in this order

  // Whose data a worker reads.
  int data_rank(int rank) const;
};

// "3:scale:-5,2:noise:10,4:zeros,5:nan:100,6:copies:1"; "@50" behind one limits it to step 50, "@50-80" to these and
// "@50-" to those from there on. Throws Error{bad_input}.
FaultOptions parse_faults(std::string_view text);
// The same text again.
std::string text_of(const FaultOptions& options);

// The faults of one worker's gradients.
class Faults {
 public:
  // Throws Error{bad_input} when the options do not fit the number of workers.
  Faults(const FaultOptions& options, std::uint64_t seed, int rank, int workers);

  // A new gradient begins ...
  void begin(std::int64_t step);
  // ... and comes in ranges, the same ones in the same order each time. Noise has the length of its range.
  void apply(std::size_t first, std::span<float> range);

 private:
  void turn_into_noise(double factor, std::span<float> range);

  std::vector<Fault> mine_;
  std::uint64_t seed_;
  int rank_;
  std::int64_t step_ = 0;
  base::Random random_;
};

}  // namespace flockstep::train
