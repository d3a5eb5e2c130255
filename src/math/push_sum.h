// Who sends to whom in push-sum: in step t every worker sends to those 2^k places ahead of it, for the n values of
// k = (t n + j) mod ceil(log2 P), j = 0 .. n-1, each taken once.
//
// Everybody has as many senders as receivers, so equal shares make the mixing matrix stochastic by columns, as push-sum
// needs it, and by rows as well. With n = 1 and a power of two, log2 P steps give everybody the exact mean.
#pragma once

#include <cstdint>
#include <vector>

namespace flockstep::math {

// How many different hops there are: ceil(log2 P).
int push_sum_hops(int workers);
// How many one sends to, and receives from: n, or as many as there are hops where that is less; none for one worker.
int push_sum_neighbours(int workers, std::int64_t n);

std::vector<int> out_neighbours(int rank, int workers, std::int64_t n, std::int64_t step);
std::vector<int> in_neighbours(int rank, int workers, std::int64_t n, std::int64_t step);

}  // namespace flockstep::math
