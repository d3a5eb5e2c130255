#include "math/fixed_partners.h"

#include <bit>

#include "base/check.h"

namespace flockstep::math {

int fixed_partner(int place, int workers, std::int64_t step) {
  base::check(workers >= 2 && place >= 0 && place < workers && place % 2 == 0, "the place of an active worker");
  const std::int64_t distances = std::bit_width(static_cast<unsigned>(workers)) - 1;
  const std::int64_t turn = step / 2 % distances, passive = workers / 2;
  const std::int64_t beyond = turn == 0 ? 0 : std::int64_t{1} << (turn - 1);  // passive workers that are passed over
  const std::int64_t moved = step % 2 == 0 ? beyond : -beyond - 1;
  return static_cast<int>(2 * (((place / 2 + moved) % passive + passive) % passive) + 1);
}

}  // namespace flockstep::math
