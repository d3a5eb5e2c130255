// The published throughput of WAGMA and of what it was compared with, simulated with our own algorithms.
//
// Fitted: how long a step computes (the ideal column), the network's bandwidth where the paper's allreduce is slower
// than the machine's own allows, and the spread of step times in reinforcement learning (its `local` column). Nothing
// else is.
#pragma once

#include "study/study.h"

namespace flockstep::study {

StudyResult study_wagma_scale(const StudyOptions& options, Cells& cells);

}  // namespace flockstep::study
