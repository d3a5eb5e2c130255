// A bucket of gradients that is measured, sketched and multiplied in place, in two kernels: what the sketched transfer
// does before the all-reduce of the backend.
//
// The factor is found on the device, from a table that an earlier step left there: [0] 1 if this worker is left out, -1
// if `excludes` does not hold in this step, else 0; [1] the sum of weights, then coefficients and limits of the guard
// at the places that the caller names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/queue.h"

namespace flockstep::kernels::cuda {

struct BucketFactor {
  const double* factors = nullptr;  // the table, on the device
  double coefficient = 1;           // as it is given, where it has no place
  std::optional<int> place;         // where it stands in the table
  std::optional<double> share;      // multiplied with it; without one, the reciprocal of the sum of weights
  std::optional<int> limit;         // where the table says how long the guard lets the bucket be
  bool excludes = false;            // whether a bucket that follows one that is not finite is cleared
};

struct BucketSketch {
  SketchKey key{};
  std::uint32_t first_chunk = 0;  // of the model, on which the bucket begins
  std::span<float> z;             // as many bins as a power of two; empty: no sketch
  bool begins = false;            // whether z is put there instead of added
};

// The bucket's norm before goes to norms[index], for buckets 0 to index - 1 before it. `queue` is one of this folder's.
void scale_sketched(Queue& queue, Numbers bucket, const BucketSketch& sketch, const BucketFactor& factor, double* norms,
                    int index);

}  // namespace flockstep::kernels::cuda
