// What the algorithms make of each task: the comparisons of docs/adacons.md, docs/wagma.md and docs/studies.md.
#pragma once

#include "study/study.h"

namespace flockstep::study {

// The regression of the AdaCons paper: what is normalisation, what consensus, what momentum.
StudyResult study_linear(const StudyOptions& options, Cells& cells);
// Images with skewed data and faulty workers.
StudyResult study_disagreement(const StudyOptions& options, Cells& cells);
// Uneven steps in virtual time: barrier or rolling bound, merges and policies, and the rest of the family.
StudyResult study_waiting(const StudyOptions& options, Cells& cells);

// A task at --size small with late or uneven workers, skewed shards, wrong data and wrong gradients.
StudyResult study_vision(const StudyOptions& options, Cells& cells);
StudyResult study_detection(const StudyOptions& options, Cells& cells);
StudyResult study_recommendation(const StudyOptions& options, Cells& cells);
StudyResult study_translation(const StudyOptions& options, Cells& cells);
StudyResult study_navigation(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
