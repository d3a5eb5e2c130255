// Whom the active workers of AD-PSGD average with where nothing is drawn: those at odd distances in a ring of all, as
// in the code that the authors of WAGMA compared theirs with.
#pragma once

#include <cstdint>

namespace flockstep::math {

// Of so many workers, two at least, those at even places are active; the place that such a one asks after this step is
// odd. It asks those at the distances 1, 3, 5, 9, 17, ..., floor(log2 P) of them in turn, each first above and then
// below it. Of an odd number of workers the last one counts as if it were the first.
int fixed_partner(int place, int workers, std::int64_t step);

}  // namespace flockstep::math
