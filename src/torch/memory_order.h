// What a rule remembers of each tensor, in an order that stays: DDP orders parameters anew after its first pass.
#pragma once

#include "torch/rule_choice.h"

namespace flockstep::torch_front {

class MemoryOrder {
 public:
  // The parameters in the order of the passes from now on; that of the first ones stays.
  void see(std::vector<const void*> parameters);

  // What the rule remembers now, as it is kept.
  RuleMemory kept(const RuleMemory& memory, const RuleChoice& choice) const;
  // The way back, for a rule of so many sections. What does not fit, such as the memory of buckets that are cut anew,
  // is forgotten; of another number of workers only what belongs to positions can be used.
  RuleMemory fitting(const RuleMemory& memory, const RuleChoice& choice, std::size_t sections,
                     math::Belonging belonging, std::size_t workers) const;

 private:
  std::vector<const void*> first_, now_;
};

}  // namespace flockstep::torch_front
