#include "engines/mpi/attachment.h"

#include <exception>

#include "engines/mpi/engine.h"

namespace flockstep::engines::mpi {

Attachment::Attachment(MPI_Comm communicator, base::Duration patience)
    : patience_(patience), exceptions_(std::uncaught_exceptions()) {
  int initialised = 0, finalised = 0;
  checked(MPI_Initialized(&initialised), "asking whether MPI is initialised");
  checked(MPI_Finalized(&finalised), "asking whether MPI is finalised");
  if (!initialised || finalised)
    throw Error(ErrorCode::unavailable, "a worker on a communicator lives between MPI_Init and MPI_Finalize", "mpi");
  if (communicator == MPI_COMM_NULL)
    throw Error(ErrorCode::bad_input, "MPI_COMM_NULL has no workers: pass a communicator that this process is in",
                "mpi");
  require_tags();
  engine_ = std::make_unique<MpiEngine>(communicator);
}

Attachment::~Attachment() {
  try {
    if (std::uncaught_exceptions() > exceptions_)
      engine_->abandon(std::runtime_error("its function ended with an exception"));
    else if (!engine_->is_broken())
      engine_->close(patience_);
    else
      engine_->tell_what_is_untold();
  } catch (const Error&) {  // recorded, and told to the peers
  }
}

Engine& Attachment::engine() { return *engine_; }

}  // namespace flockstep::engines::mpi
