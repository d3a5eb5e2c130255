// Stands in for library_all_reduce.cpp in a build without MPI.
#include "base/check.h"
#include "bench/plain_all_reduce.h"

namespace flockstep::bench {

bool has_library_all_reduce(const engines::Engine&) { return false; }

AllReduce library_all_reduce(const engines::Engine&, int) {
  base::check(false, "an engine whose library has an all-reduce");
  return {};
}

}  // namespace flockstep::bench
