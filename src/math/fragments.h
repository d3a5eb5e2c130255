// When the fragments of a model are synchronised, each once per period, their turns spread over it (streaming DiLoCo,
// arXiv 2501.18512).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/partition.h"

namespace flockstep::math {

// The fragment whose turn comes after this step (counted from 0), if one's does: fragment f's where step + 1 is f/F of
// a period, rounded, beyond a whole number of them. F <= period, so that no two have the same turn.
inline std::optional<std::size_t> fragment_after(std::int64_t step, std::int64_t period, std::size_t fragments) {
  const auto place = static_cast<std::size_t>((step % period + 1) % period);
  const base::Partition turns(static_cast<std::size_t>(period), fragments);
  const std::size_t longer = turns.size(0), shorter = turns.size(fragments - 1);
  const std::size_t many = longer == shorter ? 0 : static_cast<std::size_t>(period) % fragments;  // of the longer ones
  const std::size_t fragment = place < many * longer ? place / longer : many + (place - many * longer) / shorter;
  return turns.begin(fragment) == place ? std::optional(fragment) : std::nullopt;
}

}  // namespace flockstep::math
