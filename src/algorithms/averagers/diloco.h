#pragma once

#include "algorithms/averagers/group_averaging.h"
#include "algorithms/registry.h"
#include "algorithms/rules/rule_options.h"
#include "math/outer_step.h"

namespace flockstep::algorithms {

struct DilocoOptions {
  std::int64_t period = 64;  // local steps between two outer steps of a fragment, >= fragments
  math::OuterStep outer;
  RuleAndOptions rule;  // how the workers' updates become one; its wire is theirs
  bool is_mean = true;  // it is the plain one
  std::size_t fragments = 1;
  std::int64_t delay = 0;  // local steps that a fragment's update travels under; less than from one turn to the next
  double alpha = 1;        // share of the outer model in what a worker goes on with
  bool guard = true;
  bool waits = true;  // for everybody; else rounds of groups wait for nobody, and each worker has a velocity of its own

  // The rounds of those who do not wait.
  GroupAveragingOptions rounds(int workers) const;
  // Where the workers' models cannot be told from those of local_sgd.
  bool is_local_sgd() const;
  // Whether an outer step replaces the worker's model by the outer one, so that its memory is free on the way.
  bool is_in_place() const { return delay == 0 && alpha == 1; }
};

// Reads and validates; throws Error{bad_input}.
DilocoOptions diloco_options(const base::Settings& settings);

AlgorithmRow diloco_row();

}  // namespace flockstep::algorithms
