// What is learned in the same virtual time: real gradients under `mean`, `wagma` and `flock`.
//
// `mean` takes a given number of steps; the others as many as fit in the time that it took, each with a schedule over
// its own steps. Their result after as many steps as `mean` stands beside it.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_flock_quality(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
