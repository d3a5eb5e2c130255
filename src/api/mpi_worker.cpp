// The public interface in include/flockstep/mpi.h.
#include "api/worker.h"
#include "engines/mpi/attachment.h"
#include "flockstep/mpi.h"

namespace flockstep {

struct MpiWorker::Implementation {
  Implementation(MPI_Comm communicator, double deadline_s)
      : attachment(communicator, base::deadline_of(deadline_s)),
        behind(attachment.engine(), deadline_s),
        worker(behind) {}
  engines::mpi::Attachment attachment;
  Worker::Implementation behind;
  Worker worker;
};

MpiWorker::MpiWorker(MPI_Comm communicator, double deadline_s)
    : implementation_(std::make_unique<Implementation>(communicator, deadline_s)) {}
MpiWorker::~MpiWorker() = default;

MpiWorker::operator Worker&() { return implementation_->worker; }
int MpiWorker::rank() const { return implementation_->worker.rank(); }
int MpiWorker::size() const { return implementation_->worker.size(); }

}  // namespace flockstep
