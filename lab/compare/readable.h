// Figures as people read them, in tables and in words alike. The report writes those of its pictures the same way
// (python/flockstep/report/words.py).
#pragma once

#include <string>

namespace flockstep::compare {

// Large numbers in full, small ones to four digits.
std::string readable(double value);

// Two digits tell how far seeds lie apart.
std::string readable_deviation(double deviation);

}  // namespace flockstep::compare
