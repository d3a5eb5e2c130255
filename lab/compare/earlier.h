// What an earlier call of a comparison has left in its folder, so that no run is made twice.
//
//   RUN/request.json   how the run was asked for, written before it starts
//   RUN/summary.json   what came of it, written by the run when it ends
//
// A run that is done is read back, one that was cut short goes on from its checkpoint or, without one, is made again.
#pragma once

#include <memory>

#include "base/files.h"
#include "compare/plan.h"

namespace flockstep::compare {

struct Earlier {
  std::unique_ptr<base::FolderLock> lock;             // on the comparison's folder, in the process that looked
  std::vector<std::optional<runs::RunOutcome>> done;  // of each planned run
  int rank = 0;                                       // of this process: 0 where it should write
};

// Keeps other calls out of the comparison's folder, looks at that of every planned run, tells those that can go on to
// do so, and removes what others have left. Throws Error{bad_input}, before anything is removed, if another call has
// the folder or a run is not as planned. Where the comparison runs in several processes this is collective: rank 0
// looks, and the others learn what it found, since what they would see of shared files depends on when they look.
Earlier find_earlier(const CompareRequest& request, Plan& plan);

// All that can change a figure of the run, by name: what request.json holds.
runtime::Agreed identity_of(const runs::RunRequest& request);

// Writes request.json.
void mark_begun(const PlannedRun& run);

}  // namespace flockstep::compare
