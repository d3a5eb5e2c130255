// How long a step pretends to take: slept compute, uneven steps and stragglers, all drawn from the seed.
//
// The same on every engine: a real one sleeps, a simulated one lets virtual time pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace flockstep::train {

struct FixedStraggler {
  int worker;
  base::Duration delay;
};

struct PaceOptions {
  base::Duration compute{0};  // of one step; 0: only what the gradient really takes
  double jitter_sigma = 0;    // step times get a lognormal factor of mean one
  int random_stragglers = 0;  // so many workers, drawn anew each step ...
  base::Duration random_delay{0};
  std::vector<FixedStraggler> fixed;
};

// "2x320ms", "3:50ms" (several: "3:50ms,5:20ms") and "lognormal:0.3"; throw Error{bad_input}.
void parse_straggler(std::string_view text, PaceOptions& options);
void parse_fixed_stragglers(std::string_view text, PaceOptions& options);
void parse_jitter(std::string_view text, PaceOptions& options);

class Pace {
 public:
  // Throws Error{bad_input} when the options do not fit the number of workers.
  Pace(PaceOptions options, std::uint64_t seed, int rank, int workers);

  // Slept compute of this worker's step, jitter included.
  base::Duration compute(std::int64_t step) const;
  // What a straggler adds to it.
  base::Duration delay(std::int64_t step) const;
  // What jitter adds when compute is real: it took `measured`, and only a factor above one can be acted out.
  base::Duration jitter_of_measured(std::int64_t step, base::Duration measured) const;

 private:
  double jitter(std::int64_t step) const;
  bool is_random_straggler(std::int64_t step) const;

  PaceOptions options_;
  std::uint64_t seed_;
  int rank_, workers_;
};

}  // namespace flockstep::train
