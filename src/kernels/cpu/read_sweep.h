// Reading rows and doing nothing else: what the sweeps are measured against. For benchmarks only.
#pragma once

#include <cstddef>
#include <span>

namespace flockstep::kernels::cpu {

// One row after the other, as anybody would read them: vectors into eight sums. Returns their total, which nobody
// needs, so that no compiler may skip the reading.
float read_sweep(std::span<const float* const> rows, std::size_t n);

// The fastest reading we know: four rows side by side, in blocks, with the next block prefetched. On Zen 4 it reaches
// more of the memory's bandwidth than the processor's own prefetching does.
float tuned_read_sweep(std::span<const float* const> rows, std::size_t n);

}  // namespace flockstep::kernels::cpu
