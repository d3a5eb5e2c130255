#include "study/registry.h"

#include <array>

#include "base/names.h"
#include "study/wagma_scale.h"

namespace flockstep::study {

std::span<const StudyRow> studies() {
  static constexpr std::array<StudyRow, 1> kStudies{{
      {"wagma-scale", "the three published throughput tables of WAGMA, to 1,024 ranks, simulated cell by cell",
       study_wagma_scale},
  }};
  return kStudies;
}

const StudyRow& find_study(std::string_view name) { return base::find_by_name(studies(), name, "study"); }

}  // namespace flockstep::study
