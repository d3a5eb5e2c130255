// What a worker on a communicator of the program's own refuses. This MPI's tags end early: a function of this program
// stands before the library's own, as MPI's profiling interface allows.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <gtest/gtest.h>

#include <limits>

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

class MpiWorkerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    int level = 0;
    ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
  }
  static void TearDownTestSuite() { EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS); }

  template <typename Action>
  static void expect_refused(ErrorCode code, const std::string& sentence, const Action& action) {
    try {
      action();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_EQ(error.what(), sentence);
    }
  }
};

TEST_F(MpiWorkerTest, tooFewTagsAreFoundWhoeverHasStartedMpi) {
  const std::string sentence = "this MPI has tags up to 32767, and Flockstep needs 1048576: use another transport";
  expect_refused(ErrorCode::unavailable, sentence, [] { MpiWorker worker(MPI_COMM_SELF); });
  expect_refused(ErrorCode::unavailable, sentence, [] { launch({.engine = "mpi"}, [](Worker&) {}); });
}

TEST_F(MpiWorkerTest, aDeadlineThatIsNoneIsRefused) {
  expect_refused(ErrorCode::bad_input,
                 "a deadline cannot be inf: give a number of seconds above 0 and at most 1000000000",
                 [] { MpiWorker worker(MPI_COMM_SELF, std::numeric_limits<double>::infinity()); });
}

}  // namespace
}  // namespace flockstep
