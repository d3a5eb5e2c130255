// Averaging models where a worker errs or is late: averagers with the guard and without, on `images` all of them and on
// `vision` four, and groups with consensus weights.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_guard(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
