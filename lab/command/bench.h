// What the benchmarks behind `flockstep bench` share: their flags, and how figures are written. Each has a file of its
// own, bench_NAME.cpp.
#pragma once

#include <string>
#include <vector>

#include "bench/harness.h"
#include "engines/backend.h"

namespace flockstep::command {

struct BenchFlags {
  std::string name;
  std::string workers;
  std::string engine = "auto", wire = "float32", group_size;
  std::string device = "cpu";
  double compute_ms = 100;
  std::size_t floats = 25'600'000;
  std::int64_t bucket_kib = 4096;
  std::size_t rounds = 0;  // 0: as the benchmark thinks fit
  std::size_t megabytes = 1024;
  std::string algorithms = "wagma,flock", straggler = "2x320ms";
  std::int64_t steps = 60, period = 10;
  bool json = false;
};

int bench_kernels(const BenchFlags& flags);
int bench_adacons(const BenchFlags& flags);
int bench_group(const BenchFlags& flags);
int bench_straggler(const BenchFlags& flags);

// Numbers behind a flag that takes several, separated by commas. Throws Error{bad_input}.
std::vector<int> numbers_of(const std::string& flag, const std::string& text, int lowest);
// For a benchmark over several workers; the engine is resolved.
engines::LaunchOptions launch_of(const BenchFlags& flags, const std::string& engine);

std::string milliseconds(const bench::Spread& spread);
std::string ratio(const bench::Spread& spread);
// The lines that every benchmark ends with.
void print_targets(const std::vector<bench::TargetResult>& targets, bool json);

}  // namespace flockstep::command
