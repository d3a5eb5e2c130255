// How well scores tell clicks from the rest.
#pragma once

#include <cstdint>
#include <span>

namespace flockstep::tasks {

// The area under the receiver operating characteristic: the share of pairs of a click and another in which the click
// has the higher score; a pair of equal scores counts half. NaN where a score is NaN, or where there are no such pairs.
double area_under_curve(std::span<const double> scores, std::span<const std::uint8_t> labels);

// The mean of -log of the probability that was given to what happened, for scores that are log odds.
double log_loss(std::span<const double> log_odds, std::span<const std::uint8_t> labels);

}  // namespace flockstep::tasks
