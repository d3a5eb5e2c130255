#include "bench/plain_all_reduce.h"

#include <numeric>

namespace flockstep::bench {
namespace {

std::vector<int> all_of(const runtime::Context& context) {
  std::vector<int> ranks(static_cast<std::size_t>(context.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

PlainAllReduce::PlainAllReduce(runtime::Context& context, std::size_t floats)
    : PlainAllReduce(context, all_of(context), floats) {}

PlainAllReduce::PlainAllReduce(runtime::Context& context, const std::vector<int>& members, std::size_t floats) {
  if (has_library_all_reduce(context.engine()))
    library_ = library_all_reduce(context.engine(), members.front());
  else
    ring_.emplace(context, members, floats);
}

}  // namespace flockstep::bench
