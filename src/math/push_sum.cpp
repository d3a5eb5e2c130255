#include "math/push_sum.h"

#include <algorithm>
#include <bit>

namespace flockstep::math {
namespace {

// All of them lie below P, and more than ceil(log2 P) values of k in a row would only repeat.
std::vector<int> hops(int workers, std::int64_t n, std::int64_t step) {
  const std::int64_t period = push_sum_hops(workers);
  std::vector<int> hops;
  for (int j = 0; j < push_sum_neighbours(workers, n); ++j)
    hops.push_back(1 << ((step % period * (n % period) + j) % period));
  return hops;
}

}  // namespace

int push_sum_hops(int workers) { return std::bit_width(static_cast<unsigned>(workers - 1)); }

int push_sum_neighbours(int workers, std::int64_t n) {
  return static_cast<int>(std::min<std::int64_t>(n, push_sum_hops(workers)));
}

std::vector<int> out_neighbours(int rank, int workers, std::int64_t n, std::int64_t step) {
  std::vector<int> peers = hops(workers, n, step);
  for (int& peer : peers) peer = (rank + peer) % workers;
  return peers;
}

std::vector<int> in_neighbours(int rank, int workers, std::int64_t n, std::int64_t step) {
  std::vector<int> peers = hops(workers, n, step);
  for (int& peer : peers) peer = (rank + workers - peer) % workers;
  return peers;
}

}  // namespace flockstep::math
