#include "algorithms/registry.h"

#include <array>

#include "algorithms/adpsgd.h"
#include "algorithms/local_sgd.h"
#include "algorithms/rules.h"
#include "algorithms/swarm.h"
#include "base/names.h"

namespace flockstep::algorithms {

std::string_view to_string(Family family) { return family == Family::gradient ? "gradient" : "model"; }

std::span<const AlgorithmRow> algorithms() {
  static const std::array<AlgorithmRow, 10> rows{
      mean_row(),
      weighted_mean_row(),
      normalized_mean_row(),
      adacons_row(),
      adasum_row(),
      direction_consensus_row(),
      geometric_median_row(),
      local_sgd_row(),
      adpsgd_row(),
      swarm_row(),
  };
  return rows;
}

const AlgorithmRow& find_algorithm(std::string_view name) {
  return base::find_by_name(algorithms(), name, "algorithm");
}

}  // namespace flockstep::algorithms
