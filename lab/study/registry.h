// The studies there are: one row each.
#pragma once

#include <span>

#include "study/study.h"

namespace flockstep::study {

struct StudyRow {
  std::string_view name;
  std::string_view description;
  StudyResult (*make)(const StudyOptions& options, Cells& cells);
  bool takes_data = false;
  bool has_scenarios = false;  // which can be chosen, and so can their algorithms
};

std::span<const StudyRow> studies();
const StudyRow& find_study(std::string_view name);

}  // namespace flockstep::study
