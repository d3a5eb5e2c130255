// A gradient rule is a pure function: (statistics of one step, memory) -> (coefficients c, memory after it), and the
// result of the step is sum_i c_i g_i. It knows nothing of engines, buckets or threads, and checks nothing: aggregate.h
// puts the guards and the magnitude around it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "math/statistics.h"

namespace flockstep::math {

// What the numbers of a rule's memory belong to, which decides what becomes of them with other workers.
enum class Belonging {
  nobody,    // the rule has no memory
  position,  // to places in an order: another number of workers re-samples it by interpolation
  worker,    // to one worker each: it goes with those that take part, and another number of them starts anew
};

// What a worker's coefficient, c_i or c_i n_i, is its share of. Shares sum to one.
enum class Shares {
  none,           // the coefficients are no shares
  of_gradients,   // c_i: an average of gradients
  of_directions,  // c_i n_i: an average of directions, g_i / n_i
};

struct RuleResult {
  std::vector<double> c;       // one per worker
  std::vector<double> memory;  // after this step; empty where the rule has none
};

struct Rule {
  Need need = Need::nothing;
  Belonging belonging = Belonging::nobody;
  Shares shares = Shares::none;
  bool uses_weights = false;
  // The result has the norm of the plain mean by definition, so that Magnitude::mean_norm asks for no statistics.
  bool has_mean_norm = false;
  // Nothing where there is no safe normalisation (sum(a) <= 1e-6 * sum|a|, or every weight zero). `memory` is empty
  // before the first step.
  std::function<std::optional<RuleResult>(const Statistics&, const std::vector<double>& memory)> apply;
};

// a / sum(a), or nothing where that is not safe: sum(a) <= 1e-6 * sum|a|, or a number that is not finite.
std::optional<std::vector<double>> normalised(std::vector<double> a);

// Memory for another number of workers; the same number keeps it. By position: linear interpolation between the places,
// ends kept (one worker alone gets the middle). By worker: empty, the rule starts anew.
std::vector<double> resample(const std::vector<double>& memory, Belonging belonging, std::size_t workers);

}  // namespace flockstep::math
