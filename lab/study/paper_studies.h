// The axes and ablations of the two papers, on our tasks: what docs/papers.md is made from.
#pragma once

#include "study/study.h"

namespace flockstep::study {

// AdaCons: vision, detection and recommendation with 1 to 32 workers, each with the same batch.
StudyResult study_workers(const StudyOptions& options, Cells& cells);
// AdaCons: the same with eight workers, whose batch grows.
StudyResult study_batch(const StudyOptions& options, Cells& cells);
// AdaCons: normalisation, consensus and momentum one after the other, with the norm of the rule and with that of the
// mean.
StudyResult study_ablation(const StudyOptions& options, Cells& cells);
// WAGMA: images with 64 workers, and vision, translation and navigation with 16, late as published: its baselines and
// ablations.
StudyResult study_wagma_quality(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
