// On an MPI whose tags end early: a function of this program stands before the library's own, as MPI's profiling
// interface allows.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <gtest/gtest.h>

#include "flockstep/mpi.h"

extern "C" int MPI_Comm_get_attr(MPI_Comm communicator, int key, void* value, int* is_set) {
  static int highest = 32767;  // the least that the standard allows
  if (key != MPI_TAG_UB) return PMPI_Comm_get_attr(communicator, key, value, is_set);
  *static_cast<void**>(value) = &highest;
  *is_set = 1;
  return MPI_SUCCESS;
}

namespace flockstep {
namespace {

template <typename Action>
void expect_refused(const Action& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_STREQ(error.what(), "this MPI has tags up to 32767, and Flockstep needs 1048576: use another transport");
  }
}

TEST(MpiTags, tooFewAreFoundWhoeverHasStartedMpi) {
  int level = 0;
  ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
  expect_refused([] { MpiWorker worker(MPI_COMM_SELF); });
  expect_refused([] { launch({.engine = "mpi"}, [](Worker&) {}); });
  EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS);
}

}  // namespace
}  // namespace flockstep
