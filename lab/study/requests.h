// What studies that are comparisons ask for in common: sizes, virtual time, learning rates.
#pragma once

#include <string>
#include <vector>

#include "study/study.h"
#include "tasks/registry.h"

namespace flockstep::study {

using Names = std::vector<std::string>;

// Of the published runs with late workers: each is late by half of what a step takes (320 ms of 0.6 s) if one of two
// draws of its own names it. Virtual steps take 100 ms.
constexpr const char* kPublishedDelays = "independent:2x53ms";

struct Sizes {
  int workers;
  std::int64_t steps;
  int evaluations;  // at equal distances; 0: as many as a run has by default
  int seeds = 3;
};

compare::CompareRequest request_of(const StudyOptions& options, std::string task, const Sizes& sizes, Names algorithms);

// In virtual time, real gradients take as long as they pretend to, however busy the machine is.
void simulate(compare::CompareRequest& request, double sigma = 0);

// Of the task that the request names; `seeds` of them search, 0: all.
void search_rates(const StudyOptions& options, compare::CompareRequest& request, const Names& rates, int seeds = 0);

const tasks::Size& size_of(std::string_view task, std::string_view name);
Names rates_around(const tasks::Size& size);  // half, once and twice its own

// To rules whose results have a length of their own: one list of learning rates suits all then.
void give_the_norm_of_the_mean(compare::CompareRequest& request);

}  // namespace flockstep::study
