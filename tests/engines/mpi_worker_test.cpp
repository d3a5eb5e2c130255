// What a worker on a communicator of the program's own refuses. This MPI's tags end early: a function of this program
// stands before the library's own, as MPI's profiling interface allows.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <gtest/gtest.h>

#include <limits>

#include "flockstep/mpi.h"
#include "support/refusal.h"

extern "C" int MPI_Comm_get_attr(MPI_Comm communicator, int key, void* value, int* is_set) {
  static int highest = 32767;  // the least that the standard allows
  if (key != MPI_TAG_UB) return PMPI_Comm_get_attr(communicator, key, value, is_set);
  *static_cast<void**>(value) = &highest;
  *is_set = 1;
  return MPI_SUCCESS;
}

namespace flockstep {
namespace {

class MpiWorkerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    int level = 0;
    ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
  }
  static void TearDownTestSuite() { EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS); }
};

TEST_F(MpiWorkerTest, tooFewTagsAreFoundWhoeverHasStartedMpi) {
  const std::string sentence = "this MPI has tags up to 32767, and Flockstep needs 1048576: use another transport";
  EXPECT_EQ(test::refusal(ErrorCode::unavailable, [] { MpiWorker worker(MPI_COMM_SELF); }), sentence);
  EXPECT_EQ(test::refusal(ErrorCode::unavailable, [] { launch({.engine = "mpi"}, [](Worker&) {}); }), sentence);
}

TEST_F(MpiWorkerTest, aDeadlineThatIsNoneIsRefused) {
  EXPECT_EQ(test::refusal([] { MpiWorker worker(MPI_COMM_SELF, std::numeric_limits<double>::infinity()); }),
            "a deadline cannot be inf: give a number of seconds above 0 and at most 1000000000");
}

}  // namespace
}  // namespace flockstep
