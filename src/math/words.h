// How the sentences of findings tell workers and factors.
#pragma once

#include <string>
#include <vector>

namespace flockstep::math {

// "worker 1", "workers 1, 3 and 5"; of at least one.
std::string named(const std::vector<int>& workers);

// "2.5 times", "40 times", "over 1,000 times". A larger factor is that of a worker that has diverged: its digits tell
// nothing.
std::string times(double factor);

}  // namespace flockstep::math
