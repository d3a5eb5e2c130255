// Group size and period of `wagma` and `flock`.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_groups(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
