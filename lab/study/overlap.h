// When overlapped averaging pays: `local_sgd` and `flock` with and without `overlap`, where rounds are dear and where
// they are cheap, with like and unlike data, with nobody late and with late workers.
//
// All take the same number of steps; then each takes as many as fit in the time of `flock` without overlap, with a
// schedule over its own steps.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_overlap(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
