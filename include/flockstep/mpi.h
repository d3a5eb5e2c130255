// For a program that has MPI already: it is a worker, on a communicator of its choice.
//
//   flockstep::MpiWorker worker(MPI_COMM_WORLD);
//   flockstep::Synchronizer adacons(worker, "adacons", gradient.size());
//   adacons.after_backward(gradient);
//
// The communicator is duplicated, so the program's own messages never meet ours. In builds without MPI this header is
// installed, too, and links to nothing.
#pragma once

#include <mpi.h>

#include "flockstep/flockstep.h"

namespace flockstep {

// Collective over the communicator, its making and its end alike; the end must come before MPI_Finalize. Used from the
// thread that made it.
class MpiWorker {
 public:
  // `deadline_s` is that of every single wait, the one for the others' ends included.
  explicit MpiWorker(MPI_Comm communicator, double deadline_s = 60);
  ~MpiWorker();
  MpiWorker(const MpiWorker&) = delete;
  MpiWorker& operator=(const MpiWorker&) = delete;

  operator Worker&();  // as Synchronizer and DataParallel take it
  int rank() const;    // in the communicator
  int size() const;    // of the communicator

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace flockstep
