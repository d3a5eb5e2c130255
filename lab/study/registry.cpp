#include "study/registry.h"

#include <array>

#include "base/names.h"
#include "study/activation.h"
#include "study/adacons_cost.h"
#include "study/flock_quality.h"
#include "study/flock_scale.h"
#include "study/groups.h"
#include "study/guard.h"
#include "study/overlap.h"
#include "study/paper_studies.h"
#include "study/sketch.h"
#include "study/task_studies.h"
#include "study/wagma_scale.h"

namespace flockstep::study {

std::span<const StudyRow> studies() {
  static constexpr std::array<StudyRow, 21> kStudies{{
      {"wagma-scale", "the three published throughput tables of WAGMA, to 1,024 ranks, simulated cell by cell",
       study_wagma_scale},
      {"flock-scale", "how much of its time a worker computes under mean, wagma and flock, at 64 to 1,024 workers",
       study_flock_scale},
      {"flock-quality", "what mean, wagma and flock learn in the same virtual time, with real gradients",
       study_flock_quality, true},
      {"activation", "who starts a round: throughput, freshness and quality of every policy", study_activation, true},
      {"groups", "group size and period of wagma and flock: throughput, freshness and quality", study_groups, true},
      {"overlap", "local_sgd and flock with and without overlap: when it pays not to wait for an average",
       study_overlap, true},
      {"adacons-cost", "a step of adacons against one of mean, 4 to 4,096 workers on two networks", study_adacons_cost},
      {"linear", "the regression of the AdaCons paper: what is normalisation, what consensus, what momentum",
       study_linear, false, true},
      {"disagreement", "images with skewed data and faulty workers, under every gradient rule", study_disagreement,
       true, true},
      {"sketch",
       "images and vision with skewed data and faulty workers: exact coefficients, or the step before's, and a guard",
       study_sketch, true, true},
      {"guard", "images and vision with a worker that errs or is late: averagers with their guard and without",
       study_guard, true, true},
      {"waiting", "images and linear with uneven steps: barrier or rolling bound, merges, policies", study_waiting,
       true, true},
      {"vision", "vision with late workers, skewed shards, wrong labels and wrong gradients", study_vision, true, true},
      {"detection", "the same for detection", study_detection, true, true},
      {"recommendation", "the same for recommendation", study_recommendation, true, true},
      {"translation", "the same for translation, whose step times vary with the data", study_translation, true, true},
      {"navigation", "the same for navigation, whose step times vary with the data", study_navigation, true, true},
      {"workers", "gradient rules with 1 to 32 workers: vision, detection, recommendation", study_workers, true, true},
      {"batch", "gradient rules as the batch of eight workers grows, on the same tasks", study_batch, true, true},
      {"ablation", "AdaCons's normalisation, consensus and momentum on vision and recommendation", study_ablation, true,
       true},
      {"wagma-quality",
       "images, vision, translation and navigation with WAGMA's published delays, baselines and ablations",
       study_wagma_quality, true, true},
  }};
  return kStudies;
}

const StudyRow& find_study(std::string_view name) { return base::find_by_name(studies(), name, "study"); }

}  // namespace flockstep::study
