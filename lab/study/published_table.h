// Published figures beside simulated ones, and how far they lie apart.
#pragma once

#include <optional>
#include <span>

#include "study/published.h"
#include "study/study.h"

namespace flockstep::study {

struct ComparedCell {
  std::string column;
  int ranks;
  bool fitted;
  double published, simulated;
  std::string row = column;  // where a column has several: as it was simulated
  bool drawn = true;
  double error() const { return simulated / published - 1; }
};

// Of the absolute errors of the cells that are not fitted; nothing without one.
std::optional<double> median_error(std::span<const ComparedCell> cells);

// A row for every column of the paper, or several where it was simulated in several ways, three columns for every rank
// count; fitted figures stand in brackets.
StudyTable table_of(const PublishedWorkload& workload, std::span<const ComparedCell> cells);

}  // namespace flockstep::study
