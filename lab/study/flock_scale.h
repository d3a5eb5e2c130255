// How much of their time workers compute rather than wait, from 64 to 1,024 of them, under `mean`, `wagma` and `flock`.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_flock_scale(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
