#include "bench/recursive_doubling.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/kernels.h"

namespace flockstep::bench {

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
    const int partner = members_[place_ ^ mask];
    const auto receiving = context_.engine().receive(partner, 0, engines::bytes_of(received_.span()));
    const auto sending = context_.engine().send(partner, 0, engines::const_bytes_of(values));
    context_.wait(receiving, "recursive doubling");
    context_.wait(sending, "recursive doubling");
    kernels::axpy(1.0f, std::span<const float>(received_.span()), values);
  }
}

}  // namespace flockstep::bench
