// What benchmarks over several workers share: numbers that everybody can make again to check a result, a start
// together, and the times of whoever was slowest.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "bench/harness.h"
#include "engines/registry.h"
#include "protocol/events.h"
#include "protocol/options.h"
#include "runtime/context.h"

namespace flockstep::bench {

inline constexpr base::Duration kPatience{120};

// The numbers of worker `rank`: partly shared, and the larger the higher the rank.
void fill_input(int rank, std::span<float> values);
// How large a number of worker `rank` may be.
double input_scale(int rank);

// Goes through the numbers of all `members`, one stretch after the other: rows[i][k] is number begin + k of members[i].
using Rows = std::vector<std::vector<float>>;
void each_stretch(std::span<const int> members, std::size_t floats,
                  const std::function<void(std::size_t begin, const Rows& rows)>& action);

// A result is not what double precision says of the members' numbers: throws Error{mismatch}.
[[noreturn]] void wrong(const std::string& what);
// Where a value is off by more than single precision explains, `scale` being the size of what was added up.
bool differ(double value, double expected, double scale);

// `name` completes "... is off at 3".
void verify_sum(std::span<const int> members, std::span<const float> values, std::string_view name);
// What a worker holds after the first round in which its group has met, each member having published and brought its
// own numbers; `outcome` says whether the worker's were in the average or are mixed with it.
void verify_merged(std::span<const int> members, int rank, protocol::Outcome outcome, std::span<const float> values);

// Rounds that the first worker starts, in groups for ever: no synchronisation falls into a benchmark.
protocol::Options rounds_without_end(int workers, int group_size);

// Returns when everybody is here.
void meet(runtime::Context& context);
// A round lasts as long as its slowest worker. Collective.
Timings slowest(runtime::Context& context, const Timings& mine);

// An engine on which time can be measured; throws Error{bad_input} for others.
const engines::Backend& find_real_backend(const std::string& name);

// Runs `work` once per worker and returns what the lowest rank of this process made of it.
template <typename Result>
Result run_on_workers(const engines::Backend& backend, const engines::LaunchOptions& launch,
                      const std::function<Result(engines::Engine&)>& work) {
  std::mutex mutex;
  std::optional<Result> result;
  int lowest = 0;
  backend.run(launch, [&](engines::Engine& engine) {
    Result mine = work(engine);
    const std::lock_guard lock(mutex);
    if (result && engine.rank() > lowest) return;
    result = std::move(mine);
    lowest = engine.rank();
  });
  return std::move(*result);
}

}  // namespace flockstep::bench
