#include "bench/recursive_doubling.h"

#include <algorithm>
#include <bit>
#include <deque>

#include "base/check.h"
#include "kernels/cpu/kernels.h"

namespace flockstep::bench {
namespace {

constexpr std::size_t kPieceFloats = 1 << 20;

}  // namespace

bool RecursiveDoubling::takes(std::size_t members) { return std::has_single_bit(members); }

RecursiveDoubling::RecursiveDoubling(runtime::Context& context, std::vector<int> members, std::size_t floats)
    : context_(context),
      members_(std::move(members)),
      place_(static_cast<std::size_t>(std::ranges::find(members_, context.rank()) - members_.begin())),
      received_(context.engine().memory().allocate<float>(floats, "recursive doubling")) {
  base::check(takes(members_.size()), "a power of two members");
}

void RecursiveDoubling::all_reduce(std::span<float> values) {
  for (std::size_t mask = 1; mask < members_.size(); mask <<= 1) {
    exchange(members_[place_ ^ mask], values);
    kernels::cpu::axpy(1.0f, std::span<const float>(received_.span()), values);
  }
}

// In pieces, two under way: a message of a hundred megabytes would outlast the engine's polling, and crawl.
void RecursiveDoubling::exchange(int partner, std::span<const float> values) {
  std::deque<engines::Pending> under_way;
  for (std::size_t begin = 0; begin < values.size(); begin += kPieceFloats) {
    const std::size_t size = std::min(kPieceFloats, values.size() - begin);
    under_way.push_back(
        context_.engine().receive(partner, 0, engines::bytes_of(received_.span().subspan(begin, size))));
    under_way.push_back(context_.engine().send(partner, 0, engines::const_bytes_of(values.subspan(begin, size))));
    for (; under_way.size() > 4; under_way.pop_front()) context_.wait(under_way.front(), "recursive doubling");
  }
  for (const engines::Pending& last : under_way) context_.wait(last, "recursive doubling");
}

}  // namespace flockstep::bench
