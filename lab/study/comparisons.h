// Studies that are comparisons, one for each scenario, and what these come to side by side.
//
// A scenario is kept in a folder of its own below the study's, as `flockstep compare --out` leaves it, and may be made
// alone: tables are of all scenarios that are there and done.
#pragma once

#include "study/study.h"

namespace flockstep::study {

// The table and the picture that a scenario has to itself.
enum class View {
  none,
  time,   // speed, and quality over time
  steps,  // quality over steps
  share,  // quality against the share of ideal throughput
};

struct Scenario {
  std::string name;   // of its folder
  std::string title;  // of its column
  View view = View::none;
  compare::CompareRequest request{};  // of one number of workers and one batch
  double points = 100;                // that a difference of one in the metric makes
};

struct ComparisonStudy {
  std::string name;
  std::vector<Scenario> scenarios;
  bool side_by_side = true;  // a table with a column for each scenario
  // Where the best value of somebody's search is the largest or smallest of the list, the list grows by twice or half
  // that value for all, a few times at most.
  bool widens = false;
};

// Leaves out those that were not chosen.
StudyResult make_comparisons(const ComparisonStudy& study, const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
