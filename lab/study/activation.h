// What patience costs and brings: who starts a round, in `wagma` and `flock`, from 64 to 1,024 workers.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_activation(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
