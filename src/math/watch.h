// Looks at the statistics of step after step and says in words which worker is broken. A finding is raised only when
// its evidence has held for kSteps steps on end, or in the mean over a window of steps and well clear of their spread,
// with thresholds that healthy training does not come near; numbers that are not finite, and that a worker is left out
// because of them, are raised at once.
//
// Healthy workers whose data differ may disagree, and some have fitted theirs when others have not. Hence a worker is
// against the others only where these agree among themselves, and exploding only beyond what the others have ever been
// and what it has been itself until lately. What this misses: a wrong sign among workers that do not agree anyway, and
// a gradient that becomes too large, but not by much, when all gradients have long been small.
//
// A worker of weight zero in a step had no samples: it is not looked at in that step.
//
// Cosines may come from sketches of m numbers, drawn anew for every step; norms are the gradients' own. A cosine c is
// then off by about (1 - c^2) / sqrt(m), independently from step to step: 0.03 at m = 1,024 and 0.09 at 128. The same
// thresholds serve:
// - kSameCosine: equal gradients have equal sketches. Of nearly equal ones 1 - c is off by sqrt(2 / m) of itself, 4%.
// - kAgreement: a mean over kAgainstSteps is off by 0.005 at most, and 0.014 at m = 128; less over several pairs. So no
//   agreement at all stays 14, or 5, of these errors below it.
// - kAgainstPart: a wrong sign where the others agree to 0.2 is 8, or 3.5, such errors beyond it, and more from P = 4.
// - kOpposed: moves by less than 0.01.
// - kErrors: standard errors are those of the cosines as they come, noise included.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "math/statistics.h"

namespace flockstep::math {

enum class FindingKind { same_gradient, against, zeros, exploding, non_finite, clipped, left_out, stuck };
inline constexpr std::array<FindingKind, 8> kFindingKinds{
    FindingKind::same_gradient, FindingKind::against, FindingKind::zeros,    FindingKind::exploding,
    FindingKind::non_finite,    FindingKind::clipped, FindingKind::left_out, FindingKind::stuck};
std::string_view to_string(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::vector<int> workers;            // ascending
  std::int64_t first_step, last_step;  // of the evidence
  double evidence;                     // the cosine, the mean cosine, the ratio of norms or the number of steps
  std::string sentence;                // "worker 2 points against the others (mean cosine -0.87 over 40 steps)"
};

class Watch {
 public:
  static constexpr std::int64_t kSteps = 20;
  static constexpr double kSameCosine = 1 - 1e-5;  // and norms as close
  static constexpr double kErrors = 5;             // means of windows stand so many standard errors clear of chance

  static constexpr std::int64_t kAgainstSteps = 40;  // at eight samples a worker, 20 do not tell a cosine from chance
  static constexpr double kAgreement = 0.07;         // mean cosine among the others: less is no common direction
  static constexpr double kAgainstPart = -0.75;      // of that: mean cosine with the others (a wrong sign has -1)
  static constexpr double kOpposed = -0.65;          // mean cosine of two workers, where nobody else can be asked

  static constexpr double kFitted = 1e-3;  // of its own norm once: less is rounding, which has no direction

  static constexpr double kExplodingRatio = 6;      // of its norm to the most that the others' or its own has been
  static constexpr std::int64_t kGrowthSteps = 40;  // ago and more: who grows slower than that is only left behind

  // The guard is against single wild steps: who meets it in every other step is too large throughout. Workers that are
  // alike never do, as a step counts for nobody when more than half of them meet it: then all gradients have grown.
  static constexpr std::int64_t kClippedSteps = 40;  // as few as tell a habit from a bad stretch
  static constexpr double kClippedShare = 0.5;       // of them

  // Steps must come in order. Without the matrix only norms are looked at. Another number of workers starts the
  // evidence anew. `clipped` tells who met the guard, `left_out` who counted as nothing because its numbers
  // have not been finite for too long, `stuck` which workers were not finite for as long and counted (NonFiniteRuns):
  // one word per worker, or none. Returns what this step raised: new findings, and groups of workers that grew.
  std::vector<Finding> observe(std::int64_t step, const Statistics& statistics, const std::vector<bool>& clipped = {},
                               const std::vector<bool>& left_out = {}, const std::vector<bool>& stuck = {});

  // What has been raised so far, each once, its last_step, evidence and sentence kept up to date; in the order raised.
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  // Steps on end in which something held.
  struct Run {
    std::int64_t length = 0, first_step = 0;
    void count(bool holds, std::int64_t step);
  };
  // The last `size` values, with the steps they came from.
  class Window {
   public:
    explicit Window(std::int64_t size) : size_(size) {}
    void add(std::int64_t step, double value);
    bool full() const { return std::ssize(values_) == size_; }
    std::int64_t first_step() const { return values_.front().step; }
    double oldest() const { return values_.front().value; }
    double mean() const;
    double standard_error() const;  // of the mean; of at least two values

   private:
    struct Value {
      std::int64_t step;
      double value;
    };
    std::int64_t size_;
    std::deque<Value> values_;
  };
  static constexpr double kLowest = -std::numeric_limits<double>::infinity();
  struct Worker {
    Run non_finite, zeros;                         // the former need not be on end
    Run broken;                                    // not finite, on end
    Window clipped{kClippedSteps};                 // 1: it met the guard
    Window log_norms{kSteps}, log_ratios{kSteps};  // the latter to the others' median
    Window levels{kGrowthSteps};                   // means of log_norms
    double own = kLowest, others = kLowest;        // highest level: its own, kGrowthSteps ago, and the others'
    bool exploding = false;                        // raised: from then on what it sends is no measure of itself
    Window cosines{kAgainstSteps};                 // the mean one with the others, step by step
    Window agreement{kAgainstSteps};               // the mean cosine among the others, without this one
  };

  void watch_numbers(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& learning,
                     const std::vector<bool>& left_out);
  void watch_stuck(const Statistics& statistics, const std::vector<bool>& stuck);
  void watch_all(std::int64_t step, const Statistics& statistics);
  void watch_guard(std::int64_t step, const Statistics& statistics, const std::vector<bool>& clipped);
  void watch_norms(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living);
  void watch_directions(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& learning);
  void watch_equality(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living);
  void raise_groups(const Statistics& statistics);
  void raise_exploding(std::size_t worker);
  void raise_opposed(const Window& cosines);
  void raise_against(std::size_t worker);
  void raise(FindingKind kind, std::vector<int> workers, std::int64_t first_step, double evidence,
             std::string sentence);

  std::int64_t last_step_ = -1;
  std::vector<Worker> workers_;
  std::vector<Run> equal_;      // packed, by pair
  Run all_zeros_, all_broken_;  // from every worker that had samples; the latter: not finite
  std::vector<Finding> findings_;
  std::vector<Finding> raised_;  // by the step under way
};

}  // namespace flockstep::math
