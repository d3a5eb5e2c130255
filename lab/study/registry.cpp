#include "study/registry.h"

#include <array>

#include "base/names.h"
#include "study/activation.h"
#include "study/adacons_cost.h"
#include "study/flock_quality.h"
#include "study/flock_scale.h"
#include "study/groups.h"
#include "study/wagma_scale.h"

namespace flockstep::study {

std::span<const StudyRow> studies() {
  static constexpr std::array<StudyRow, 6> kStudies{{
      {"wagma-scale", "the three published throughput tables of WAGMA, to 1,024 ranks, simulated cell by cell",
       study_wagma_scale},
      {"flock-scale", "how much of its time a worker computes under mean, wagma and flock, at 64 to 1,024 workers",
       study_flock_scale},
      {"flock-quality", "what mean, wagma and flock learn in the same virtual time, with real gradients",
       study_flock_quality, true},
      {"activation", "who starts a round: throughput, freshness and quality of every policy", study_activation, true},
      {"groups", "group size and period of wagma and flock: throughput, freshness and quality", study_groups, true},
      {"adacons-cost", "a step of adacons against one of mean, 4 to 4,096 workers on two networks", study_adacons_cost},
  }};
  return kStudies;
}

const StudyRow& find_study(std::string_view name) { return base::find_by_name(studies(), name, "study"); }

}  // namespace flockstep::study
