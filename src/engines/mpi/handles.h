// MPI's return codes as errors, and its communicators as objects.
#pragma once

// Only the C interface: the C++ one is gone from MPI's standard and does not compile without warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <fmt/core.h>
#include <mpi.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "flockstep/error.h"

namespace flockstep::engines::mpi {

// `what` completes the sentence "... failed". A block that is longer than the place for it is a disagreement between
// workers; anything else that MPI reports means that the job is coming apart.
inline Error error_of(int return_code, std::string_view what) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0, error_class = MPI_ERR_OTHER;
  if (MPI_Error_string(return_code, text.data(), &length) != MPI_SUCCESS) length = 0;
  if (MPI_Error_class(return_code, &error_class) != MPI_SUCCESS) error_class = MPI_ERR_OTHER;
  const std::string_view reason(text.data(), static_cast<std::size_t>(length));
  if (error_class == MPI_ERR_TRUNCATE)
    return Error(
        ErrorCode::mismatch,
        fmt::format("{} failed: a peer sent a longer block than expected ({}); give every worker the same sizes", what,
                    reason),
        "mpi");
  return Error(ErrorCode::peer_lost, fmt::format("{} failed: {}", what, reason), "mpi");
}

inline void checked(int return_code, std::string_view what) {
  if (return_code != MPI_SUCCESS) [[unlikely]]
    throw error_of(return_code, what);
}

// A duplicate of a communicator, or a part of one, that returns errors instead of ending the job. Making and freeing
// one is collective, so the destructor leaves it alone: a process that unwinds by itself must not enter a collective.
// free() is for the end of a run in which all went well.
class Communicator {
 public:
  explicit Communicator(MPI_Comm original) {
    checked(MPI_Comm_dup(original, &handle_), "duplicating a communicator");
    return_errors();
  }
  // Of those who say the same group, in the order of their ranks.
  Communicator(MPI_Comm original, int group) {
    checked(MPI_Comm_split(original, group, 0, &handle_), "splitting a communicator");
    return_errors();
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm get() const { return handle_; }
  void free() { checked(MPI_Comm_free(&handle_), "freeing a communicator"); }

 private:
  void return_errors() { checked(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "setting an error handler"); }

  MPI_Comm handle_ = MPI_COMM_NULL;
};

}  // namespace flockstep::engines::mpi
