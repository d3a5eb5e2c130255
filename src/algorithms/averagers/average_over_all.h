// A blocking average over all workers, by the worker itself: how averagers that do not wait make their models equal.
#pragma once

#include <span>
#include <vector>

#include "runtime/context.h"
#include "runtime/layout.h"

namespace flockstep::algorithms {

// Takes the memory that it needs, two buckets, for as long as it lasts. If workers are named, the values of these alone
// count.
void average_over_all(runtime::Context& context, const runtime::Layout& layout, std::span<float> values,
                      const std::vector<bool>& counted = {});

}  // namespace flockstep::algorithms
