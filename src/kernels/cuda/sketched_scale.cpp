#include "kernels/cuda/sketched_scale.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/queue.h"

namespace flockstep::kernels::cuda {

void scale_sketched(Queue& any_queue, Numbers bucket, const BucketSketch& sketch, const BucketFactor& factor,
                    double* norms, int index) {
  auto* const queue = dynamic_cast<StreamQueue*>(&any_queue);
  base::check(queue != nullptr, "a queue on a CUDA stream");
  base::check(factor.factors != nullptr && norms != nullptr && index >= 0,
              "a table of factors, and a place for the norm");
  const Size length = sketch.z.size();
  const StreamQueue::Measured measured = queue->measure(bucket, sketch.key, sketch.first_chunk, length);
  ScaleArguments a{};
  a.x = bucket.data;
  a.size = bucket.size;
  a.type = type_of(bucket.type);
  a.aligned = reinterpret_cast<std::uintptr_t>(bucket.data) % (4 * size_of(bucket.type)) == 0 ? 1 : 0;
  a.sketches = measured.sketches;
  a.squares = measured.squares;
  a.partial_count = length == 0 ? 0 : measured.programs * (measured.width / length);
  a.square_count = measured.square_count;
  a.length = length;
  a.z = sketch.z.data();
  a.begins = sketch.begins ? 1 : 0;
  a.factors = factor.factors;
  a.coefficient = factor.coefficient;
  a.share = factor.share.value_or(0);
  a.place = factor.place.value_or(-1);
  a.limit = factor.limit.value_or(-1);
  a.excludes = factor.excludes ? 1 : 0;
  a.norms = norms;
  a.index = index;
  const Size blocks_of_sketch = length == 0 ? 1 : length / bins_of(length);
  queue->launch("scale_bucket",
                {.x = std::max(ceil_of(bucket.size, kSpanColumns), blocks_of_sketch), .threads = kSketchThreads}, a);
}

}  // namespace flockstep::kernels::cuda
