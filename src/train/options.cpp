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
  };
}

}  // namespace flockstep::train
