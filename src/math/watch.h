// Looks at the statistics of step after step and says in words which worker is broken. A finding is raised only after
// its evidence has held for kSteps steps on end, with thresholds that healthy training does not come near.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "math/statistics.h"

namespace flockstep::math {

enum class FindingKind { same_gradient, against, zeros, exploding, non_finite };
std::string_view to_string(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::vector<int> workers;
  std::int64_t first_step, last_step;  // of the evidence
  double evidence;                     // the cosine, the mean cosine, the ratio of norms or the number of steps
  std::string sentence;                // "worker 2 points against the others: ..."
};

class Watch {
 public:
  static constexpr std::int64_t kSteps = 20;
  static constexpr double kSameCosine = 1 - 1e-5;  // and norms as close
  static constexpr double kAgainstCosine = -0.1;   // mean cosine with the others, averaged over about kSteps steps
  static constexpr double kExplodingRatio = 10;    // of a worker's norm to the median worker's

  // Steps must come in order. Without the matrix only norms are looked at.
  void observe(std::int64_t step, const Statistics& statistics);

  // What has been raised so far, each once, its last_step and evidence kept up to date; in the order raised.
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  std::vector<Finding> findings_;
};

}  // namespace flockstep::math
