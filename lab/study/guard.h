// Averaging models where a worker errs or is late: every averager with the guard and without, and groups with consensus
// weights.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_guard(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
