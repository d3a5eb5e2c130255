// What rules with statistics cost beside a plain all-reduce through the same path, from 4 to 4,096 workers.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_adacons_cost(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
