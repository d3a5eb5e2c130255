#include "train/options.h"

#include <nlohmann/json.hpp>

namespace flockstep::train {

nlohmann::json identity_of(const TrainOptions& options, int workers) {
  return {
      {"task", options.task},
      {"task_settings", options.task_settings},
      {"algorithm", options.algorithm},
      {"algorithm_settings", options.algorithm_settings},
      {"seed", options.seed},
      {"batch", options.batch},
      {"bucket_kib", options.bucket_kib},
      {"workers", workers},
      {"faulty", text_of(options.faults)},
  };
}

nlohmann::json pace_of(const TrainOptions& options) {
  nlohmann::json fixed = nlohmann::json::array();
  for (const FixedStraggler& straggler : options.pace.fixed)
    fixed.push_back({{"worker", straggler.worker}, {"delay_s", straggler.delay.count()}});
  return {
      {"compute_s", options.pace.compute.count()},
      {"jitter_sigma", options.pace.jitter_sigma},
      {"random_stragglers", options.pace.random_stragglers},
      {"random_delay_s", options.pace.random_delay.count()},
      {"fixed_stragglers", fixed},
  };
}

}  // namespace flockstep::train
