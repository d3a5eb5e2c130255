#include "torch/rule_choice.h"

#include "base/text.h"

namespace flockstep::torch_front {

const algorithms::AlgorithmRow& row_of(const std::string& name) {
  const algorithms::AlgorithmRow& row = algorithms::find_algorithm(name);
  if (!row.rule)
    throw Error(ErrorCode::bad_input,
                base::concatenated(name, " does not combine gradients, and cannot be a hook's rule"));
  return row;
}

void check_rule(const RuleChoice& choice, int workers) { row_of(choice.name).check(choice.options, workers); }

RuleChoice averaging(const RuleChoice& rule) {
  RuleChoice mean{"mean", {}};
  for (const char* const name :
       {"granularity", "wire", "watch", "non_finite", "transfer", "guard", "sketch_length", "non_finite_patience"})
    if (const auto given = rule.options.find(name); given != rule.options.end()) mean.options.insert(*given);
  if (rule.name != mean.name && row_of(rule.name).rule(rule.options).common.aggregate.guard > 0)
    mean.options["guard"] = "count";
  return mean;
}

std::string granularity_of(const RuleChoice& choice) {
  const auto given = choice.options.find("granularity");
  return given == choice.options.end() ? "model" : given->second;
}

bool share_memory(const RuleChoice& a, const RuleChoice& b) {
  return a.name == b.name && granularity_of(a) == granularity_of(b);
}

std::vector<double> every_cosine(const math::Statistics& statistics) {
  if (!statistics.has_matrix()) return {};
  const std::vector<double> packed = math::cosines(statistics, 0);
  std::vector<double> all;
  for (std::size_t i = 0; i < statistics.workers(); ++i)
    for (std::size_t j = 0; j < statistics.workers(); ++j) all.push_back(packed[math::packed_index(i, j)]);
  return all;
}

}  // namespace flockstep::torch_front
