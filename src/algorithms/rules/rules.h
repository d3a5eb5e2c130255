// The gradient rules of the registry; each is one file, a short reading of src/math.
#pragma once

#include "algorithms/rules/gradient_rule.h"
#include "algorithms/rules/sketched_rule.h"

namespace flockstep::algorithms {

AlgorithmRow mean_row();
AlgorithmRow weighted_mean_row();
AlgorithmRow normalized_mean_row();
AlgorithmRow adacons_row();
AlgorithmRow direction_consensus_row();
AlgorithmRow geometric_median_row();
AlgorithmRow adasum_row();

// Fills in what rows of gradient rules have in common; `Choose` turns settings into a rule, or throws Error{bad_input}.
template <RuleAndOptions (*Choose)(const base::Settings&)>
AlgorithmRow gradient_row(std::string_view name, std::string_view description, std::string_view bytes_text,
                          std::span<const base::OptionSpec> options, std::string_view magnitude_of_averages = {}) {
  return {
      .name = name,
      .family = Family::gradient,
      .description = description,
      .bytes_text = bytes_text,
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            return gradient_rule_bytes(workers, parameters, Choose(settings));
          },
      .models_held = [](int workers,
                        const base::Settings& settings) { return gradient_rule_models(workers, Choose(settings)); },
      .pair_bytes_held =
          [](int workers, const base::Settings& settings) {
            return gradient_rule_pair_bytes(workers, Choose(settings));
          },
      .options = options,
      .make = [](const AlgorithmInputs& inputs) -> std::unique_ptr<Algorithm> {
        const RuleAndOptions choice = Choose(inputs.settings);
        if (is_summed_early(choice)) return std::make_unique<SketchedRule>(inputs, choice);
        return std::make_unique<GradientRule>(inputs, choice);
      },
      .check = [](const base::Settings& settings, int) { Choose(settings); },
      .facts = [](const base::Settings&) { return Facts{.replicas_are_equal = true}; },
      .rule = Choose,
      .magnitude_of_averages = magnitude_of_averages,
  };
}

}  // namespace flockstep::algorithms
