// What a pass told, as Python takes it.
#pragma once

#include <torch/extension.h>

#include "torch/rule_choice.h"

namespace flockstep::python {

using OptionWords = std::map<std::string, std::string>;

inline torch_front::RuleChoice rule_choice(const std::string& rule, const OptionWords& options) {
  return {rule, {options.begin(), options.end()}};
}

pybind11::dict report_of(const torch_front::GradientNews& news);

}  // namespace flockstep::python
