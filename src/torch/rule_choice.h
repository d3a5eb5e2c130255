// What the two ways of a gradient through DDP's hooks share, exact (gradient_passes.h) and sketched (sketched_hook.h):
// how a rule is chosen, and what a pass tells.
#pragma once

#include <string>
#include <vector>

#include "algorithms/rules/gradient_rule.h"
#include "flockstep/flockstep.h"

namespace flockstep::torch_front {

struct RuleChoice {
  std::string name = "mean";  // as in `flockstep algorithms`
  base::Settings options;
  bool operator==(const RuleChoice&) const = default;
};

// What a rule remembers. Exact: per section, one for the model, for each bucket, or for each tensor in the order of the
// first pass. Sketched: the sizes of the buckets, then the rows of math::Sketched::state().
using RuleMemory = std::vector<std::vector<double>>;

// What the last pass told; the same on all workers but for times and bytes.
struct GradientNews {
  std::string rule;
  std::int64_t step = 0;  // passes so far
  StepReport report;
  std::vector<double> cosines;        // of every worker's gradient with every other's, row by row; empty where unknown
  std::vector<std::string> findings;  // kept up to date
  std::vector<std::string> raised;    // the same, each as it was said first
  std::string remembering;            // the rule whose memory this is
  RuleMemory memory;
  double waited_s = 0, transferred_s = 0;
  double exposed_s = 0;  // from last buckets to results, added up
  std::uint64_t bytes_sent = 0;
};

// Throws Error{bad_input} for a rule or options that do not exist.
void check_rule(const RuleChoice& choice, int workers);
// The row of a gradient rule. Throws Error{bad_input} for any other name.
const algorithms::AlgorithmRow& row_of(const std::string& name);
// Plain averaging, with those of a rule's options that it has; another rule's guard only counts.
RuleChoice averaging(const RuleChoice& rule);
std::string granularity_of(const RuleChoice& choice);
// Whether one can go on with what the other remembers.
bool share_memory(const RuleChoice& a, const RuleChoice& b);
// Row by row; empty without the matrix.
std::vector<double> every_cosine(const math::Statistics& statistics);

}  // namespace flockstep::torch_front
