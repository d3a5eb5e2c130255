// Looks at the statistics of step after step and says in words which worker is broken. A finding is raised only after
// its evidence has held for kSteps steps on end, with thresholds that healthy training does not come near; numbers that
// are not finite are raised at once.
//
// A worker of weight zero in a step had no samples: it is not looked at in that step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "math/statistics.h"

namespace flockstep::math {

enum class FindingKind { same_gradient, against, zeros, exploding, non_finite };
inline constexpr std::array<FindingKind, 5> kFindingKinds{FindingKind::same_gradient, FindingKind::against,
                                                          FindingKind::zeros, FindingKind::exploding,
                                                          FindingKind::non_finite};
std::string_view to_string(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::vector<int> workers;            // ascending
  std::int64_t first_step, last_step;  // of the evidence
  double evidence;                     // the cosine, the mean cosine, the ratio of norms or the number of steps
  std::string sentence;                // "worker 2 points against the others (mean cosine -0.87 over 20 steps)"
};

class Watch {
 public:
  static constexpr std::int64_t kSteps = 20;
  static constexpr double kSameCosine = 1 - 1e-5;  // and norms as close
  static constexpr double kAgainstCosine = -0.1;   // mean cosine with the others, averaged over kSteps steps
  static constexpr double kAgainstErrors = 8;      // and as many standard errors below zero, for models of few numbers
  static constexpr double kExplodingRatio = 10;    // of a worker's norm to the median of the others'

  // Steps must come in order. Without the matrix only norms are looked at. Another number of workers starts the
  // evidence anew. Returns what this step raised: new findings, and groups of equal workers that grew.
  std::vector<Finding> observe(std::int64_t step, const Statistics& statistics);

  // What has been raised so far, each once, its last_step, evidence and sentence kept up to date; in the order raised.
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  // Steps on end in which something held.
  struct Run {
    std::int64_t length = 0, first_step = 0;
    void count(bool holds, std::int64_t step);
  };
  // The last kSteps values.
  struct Window {
    std::array<double, kSteps> values{};
    std::int64_t count = 0;  // of all so far
    void add(double value);
    double mean() const;
    double standard_error() const;  // of the mean; needs kSteps values
  };
  struct Worker {
    Run non_finite, zeros, exploding, against;
    double log_ratios = 0;  // their sum over the run of `exploding`
    Window cosines;         // the mean one with the others, step by step
  };

  void watch_numbers(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living);
  void watch_norms(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living);
  void watch_directions(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living);
  void watch_equality(std::int64_t step, const Statistics& statistics, const std::vector<std::size_t>& living);
  void raise_groups(const Statistics& statistics);
  bool stands_out(std::size_t worker) const;
  void raise(FindingKind kind, std::vector<int> workers, std::int64_t first_step, double evidence,
             std::string sentence);

  std::int64_t last_step_ = -1;
  std::vector<Worker> workers_;
  std::vector<Run> equal_;  // packed, by pair
  std::vector<Finding> findings_;
  std::vector<Finding> raised_;  // by the step under way
};

}  // namespace flockstep::math
