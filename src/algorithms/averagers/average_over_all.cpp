#include "algorithms/averagers/average_over_all.h"

#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {

void average_over_all(runtime::Context& context, const runtime::Layout& layout, std::span<float> values,
                      const std::vector<bool>& counted) {
  runtime::OnePass(context, layout, "received shards", {.room = runtime::Room::window}).average(values, counted);
}

}  // namespace flockstep::algorithms
