// An engine on a communicator that a program already has: for programs that are workers, instead of starting some.
#pragma once

#include <memory>

#include "base/time.h"
#include "engines/mpi/handles.h"

namespace flockstep::engines {
struct Engine;
}
namespace flockstep::engines::mpi {

class MpiEngine;

// Collective, its making and its end alike; MPI must be initialised for all of its life. Where it ends because of an
// exception, the peers' waits fail instead of lasting to their deadlines.
class Attachment {
 public:
  // `patience` is how long the end waits for the peers' ends.
  Attachment(MPI_Comm communicator, base::Duration patience);
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  Engine& engine();

 private:
  std::unique_ptr<MpiEngine> engine_;
  base::Duration patience_;
  int exceptions_;  // under way when it was made
};

}  // namespace flockstep::engines::mpi
