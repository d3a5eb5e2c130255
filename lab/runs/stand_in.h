// What takes a task's place in a run without gradients: a model that travels as the task's would, and learns nothing.
#pragma once

#include "train/task.h"

namespace flockstep::runs {

// On `sim`, where data may seem larger than they are, thousands of models have to fit in one process.
struct StandInSize {
  std::size_t numbers;   // in the stand-in's model
  std::int64_t buckets;  // in which they travel
};
// For a model of so many parameters in buckets of `bucket_kib`. As many buckets as the real one has, as far as a small
// model can be divided evenly among all workers in each: uneven shards would make some links seem busier than others.
// But at most 256: every bucket costs the simulation time, and of more than that one weighs too little to be seen.
StandInSize stand_in_size(std::int64_t parameters, std::int64_t bucket_kib, int workers);

std::unique_ptr<train::Task> make_stand_in(std::size_t numbers, std::int64_t samples_per_step);

}  // namespace flockstep::runs
