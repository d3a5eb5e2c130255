// `recommendation`: a deep learning recommendation model that predicts clicks. Here are its options and its row in the
// registry; the network itself, which needs torch, is in lab/tasks/torch.
#pragma once

#include <string>

#include "tasks/adam.h"
#include "tasks/recommendation/dlrm_plan.h"
#include "tasks/registry.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks {

struct RecommendationOptions {
  DlrmPlan model;
  AdamOptions adam;
  ShardOptions shard;
  std::string data;  // a file or folder; empty: generated
};

// Throws Error{bad_input}.
RecommendationOptions recommendation_options_of(const base::Settings& settings, int workers, std::int64_t steps);

TaskRow recommendation_row();

}  // namespace flockstep::tasks
