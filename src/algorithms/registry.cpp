#include "algorithms/registry.h"

#include <array>

#include "algorithms/averagers/adpsgd.h"
#include "algorithms/averagers/diloco.h"
#include "algorithms/averagers/dpsgd.h"
#include "algorithms/averagers/flock.h"
#include "algorithms/averagers/local_sgd.h"
#include "algorithms/averagers/post_local_sgd.h"
#include "algorithms/averagers/sgp.h"
#include "algorithms/averagers/swarm.h"
#include "algorithms/averagers/wagma.h"
#include "algorithms/rules/eager.h"
#include "algorithms/rules/rules.h"
#include "base/names.h"

namespace flockstep::algorithms {

std::string_view to_string(Family family) {
  switch (family) {
    case Family::gradient: return "gradient";
    case Family::partial_gradient: return "partial gradient";
    case Family::model: return "model";
  }
  return "";
}

Facts facts_of(const AlgorithmRow& row, const base::Settings& settings, int workers) {
  const Facts facts = row.facts(settings);
  if (workers > 1 || row.rule) return facts;
  return {.replicas_are_equal = true, .resumes_apart = facts.resumes_apart};
}

std::span<const AlgorithmRow> algorithms() {
  static const std::array rows{
      mean_row(),
      weighted_mean_row(),
      normalized_mean_row(),
      adacons_row(),
      adasum_row(),
      direction_consensus_row(),
      geometric_median_row(),
      eager_solo_row(),
      eager_majority_row(),
      local_sgd_row(),
      post_local_sgd_row(),
      diloco_row(),
      dpsgd_row(),
      sgp_row(),
      adpsgd_row(),
      swarm_row(),
      wagma_row(),
      flock_row(),
  };
  return rows;
}

const AlgorithmRow& find_algorithm(std::string_view name) {
  return base::find_by_name(algorithms(), name, "algorithm");
}

}  // namespace flockstep::algorithms
