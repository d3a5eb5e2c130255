// Step times as a sorted list, each entry equally likely, and how long the slowest of several workers takes.
#pragma once

#include <span>
#include <vector>

namespace flockstep::study {

// The expected largest of `of` independent draws from the sorted list: entry i is the largest with probability
// ((i+1)/n)^of - (i/n)^of.
double mean_of_largest(std::span<const double> sorted, int of);

struct Largest {
  int of;
  double mean;  // of the largest of so many, in units of the mean
};

// A list of mean one whose largest values come as near to the given ones as they can, each relative to its size.
//
// Its quantiles are piecewise linear in the logarithm of the probability to exceed them, with a knot at each halving
// from 1/2 to 1/1024, and below the median rise from `least_over_median` of it. Rises are non-negative, found by least
// squares with a little weight on being small: four numbers alone would leave several answers.
std::vector<double> fit_step_times(std::span<const Largest> largest, double least_over_median);

}  // namespace flockstep::study
