// The algorithms there are: one row each, one file each.
#pragma once

#include <memory>

#include "algorithms/algorithm.h"

namespace flockstep::algorithms {

enum class Family {
  gradient,          // rules: the same result from everybody's gradients, everywhere
  partial_gradient,  // sums of the gradients that are there
  model,             // averages of models
};
std::string_view to_string(Family family);

struct AlgorithmRow {
  std::string_view name;
  Family family;
  std::string_view description;
  std::string_view bytes_text;  // sent per worker and step, with D parameters and P workers
  double (*bytes_per_step)(int workers, double parameters, const base::Settings& settings);
  // Copies of a whole model that it holds on each worker, beside the few parts that are under way.
  double (*models_held)(int workers, const base::Settings& settings);
  // Bytes beside models: numbers for every pair of workers, which each of them holds.
  double (*pair_bytes_held)(int workers, const base::Settings& settings) = [](int, const base::Settings&) {
    return 0.0;
  };
  std::span<const base::OptionSpec> options;
  std::unique_ptr<Algorithm> (*make)(const AlgorithmInputs& inputs);
  // Throws Error{bad_input}, without an engine at hand; `workers` is the largest int where it is not known yet.
  void (*check)(const base::Settings& settings, int workers);
};

std::span<const AlgorithmRow> algorithms();
const AlgorithmRow& find_algorithm(std::string_view name);

}  // namespace flockstep::algorithms
