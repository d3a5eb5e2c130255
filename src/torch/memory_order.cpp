#include "torch/memory_order.h"

#include <algorithm>

namespace flockstep::torch_front {
namespace {

std::size_t place_of(const void* parameter, const std::vector<const void*>& parameters) {
  return static_cast<std::size_t>(std::ranges::find(parameters, parameter) - parameters.begin());
}

}  // namespace

void MemoryOrder::see(std::vector<const void*> parameters) {
  now_ = std::move(parameters);
  if (!std::ranges::is_permutation(first_, now_)) first_ = now_;  // there was none, or it is another model
}

RuleMemory MemoryOrder::kept(const RuleMemory& memory, const RuleChoice& choice) const {
  if (granularity_of(choice) != "tensor") return memory;
  RuleMemory kept;
  for (const void* const parameter : first_) kept.push_back(memory[place_of(parameter, now_)]);
  return kept;
}

RuleMemory MemoryOrder::fitting(const RuleMemory& memory, const RuleChoice& choice, std::size_t sections,
                                math::Belonging belonging, std::size_t workers) const {
  if (memory.size() != sections) return RuleMemory(sections);
  RuleMemory fitted = memory;
  if (granularity_of(choice) == "tensor")
    for (std::size_t tensor = 0; tensor < fitted.size(); ++tensor)
      fitted[tensor] = memory[place_of(now_[tensor], first_)];
  if (belonging != math::Belonging::position)
    for (std::vector<double>& section : fitted) section = math::resample(section, belonging, workers);
  return fitted;
}

}  // namespace flockstep::torch_front
