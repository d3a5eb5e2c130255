// A blocking average over all workers, by the worker itself: how averagers that do not wait make their models equal.
#pragma once

#include <span>

#include "runtime/context.h"
#include "runtime/layout.h"

namespace flockstep::algorithms {

// Takes the memory that it needs, two buckets, for as long as it lasts.
void average_over_all(runtime::Context& context, const runtime::Layout& layout, std::span<float> values);

}  // namespace flockstep::algorithms
