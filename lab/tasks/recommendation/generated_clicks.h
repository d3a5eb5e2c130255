// Clicks by a rule that is known, so that the best that any model can reach is known, too.
//
// Every id of every table has a hidden vector u and an effect of its own, e. With f(x) of the numbers x,
//
//   log odds of a click = f(x) + sum over tables of e + sum over pairs of tables (0,1), (2,3), ... of u.u'
//
// u has mean zero over the ids, so that either of a pair tells little without the other: a model that does not let
// categories interact gets hardly further than the first two terms. Hidden vectors are computed when they are needed,
// by counting random numbers, so tables may have any number of rows.
#pragma once

#include "base/random.h"
#include "tasks/recommendation/clicks.h"

namespace flockstep::tasks {

struct LogOdds {
  double numbers = 0, effects = 0, interactions = 0;

  double sum() const { return numbers + effects + interactions; }
};
// What is planted for a click.
LogOdds planted_log_odds(const ClickShape& shape, std::span<const float> numbers, std::span<const std::uint32_t> ids);

// The click is drawn from all, or from those whose id in the first table is `first` modulo `step`.
struct FirstIds {
  std::uint32_t first = 0, step = 1;
};
// Appends one click. Low ids are more frequent than high ones.
void draw_click(const ClickShape& shape, FirstIds first_ids, base::Random& random, Clicks& clicks);

// So many clicks, the same in every run; each `number` stands for others.
Clicks fixed_clicks(const ClickShape& shape, std::size_t count, std::uint32_t number);

}  // namespace flockstep::tasks
