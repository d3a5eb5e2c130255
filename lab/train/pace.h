// How long a step pretends to take: slept compute, uneven steps and stragglers, all drawn from the seed.
//
// The same on every engine: a real one sleeps, a simulated one lets virtual time pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "train/measured_steps.h"

namespace flockstep::train {

struct FixedStraggler {
  int worker;
  base::Duration delay;
};

struct PaceOptions {
  base::Duration compute{0};                      // of one step, or their mean; 0: what the gradient really takes
  double jitter_sigma = 0;                        // step times get a lognormal factor of mean one
  std::shared_ptr<const MeasuredSteps> measured;  // each step takes one of these, drawn at random; null: `compute`
  int random_stragglers = 0;                      // so many workers, drawn anew each step ...
  bool independent_stragglers = false;            // ... or so many draws of each worker, late if one of them names it
  base::Duration random_delay{0};
  std::vector<FixedStraggler> fixed;
};

// "200ms", "lognormal:200ms:0.53" (compute and jitter in one) and "file:PATH"; throws Error{bad_input}, or
// Error{bad_file} for what the file holds.
void parse_compute(std::string_view text, PaceOptions& options);
// "2x320ms" or "independent:2x320ms", "3:50ms" (several: "3:50ms,5:20ms") and "lognormal:0.3"; throw Error{bad_input}.
void parse_straggler(std::string_view text, PaceOptions& options);
void parse_fixed_stragglers(std::string_view text, PaceOptions& options);
void parse_jitter(std::string_view text, PaceOptions& options);
// What parse_straggler reads as the same random stragglers.
std::string straggler_text(const PaceOptions& options);

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
  base::Random draws_of(std::int64_t step) const;
  double jitter(std::int64_t step) const;
  bool is_random_straggler(std::int64_t step) const;
  bool is_named_by_own_draws(std::int64_t step) const;

  PaceOptions options_;
  std::uint64_t seed_;
  int rank_, workers_;
};

}  // namespace flockstep::train
