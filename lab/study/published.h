// What was published about scale: the throughput tables of "Breaking (Global) Barriers in Parallel Stochastic
// Optimization with Wait-Avoiding Group Averaging" (Li et al., 2021), measured on Piz Daint with one P100 per rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flockstep::study {

struct PublishedColumn {
  std::string_view name;       // as the paper has it
  bool fitted;                 // a simulation may be fitted to it, and is not judged by it
  std::vector<double> values;  // by rank count
};

struct PublishedWorkload {
  std::string_view name, title, unit;
  std::int64_t parameters;
  // Of them, those of an embedding whose gradient allreduce gathers from all ranks instead of summing it, and how many
  // numbers each rank then brings.
  std::int64_t gathered_parameters, gathered_numbers;
  int tensors;              // that the model consists of
  int period;               // tau
  double samples_per_step;  // of each rank
  double samples_per_unit;  // tokens are counted in thousands
  int random_stragglers;    // draws of each rank in each step: if one of them names the rank, it is delayed
  double delay_ms;          // by so much
  std::vector<int> ranks;
  std::vector<PublishedColumn> columns;

  const PublishedColumn& column(std::string_view column) const;
  // A model whose allreduce moves as many bytes as the published one of `ranks[place]`.
  std::int64_t allreduce_parameters(std::size_t place) const;
  // How long a step of a rank computes, of `ranks[place]`: what the ideal column says.
  double compute_s(std::size_t place) const;
};

std::span<const PublishedWorkload> published_workloads();

}  // namespace flockstep::study
