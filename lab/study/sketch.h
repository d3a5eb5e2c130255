// Rules with the coefficients of the step before against the same rules with this step's: what both learn where workers
// differ or err, with and without the guard, by sketches of several lengths.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_sketch(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
