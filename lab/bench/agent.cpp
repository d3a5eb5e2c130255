#include "bench/agent.h"

#include <algorithm>
#include <ctime>

#include "algorithms/registry.h"
#include "base/check.h"
#include "bench/workers.h"
#include "math/groups.h"
#include "runtime/gather.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/round_agent.h"

namespace flockstep::bench {
namespace {

constexpr base::Duration kIdle{2};

double thread_seconds() {
  timespec time{};
  base::check(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0, "a clock of the thread's own time");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

std::vector<AlgorithmMemory> measure_memory(engines::Engine& engine, std::size_t floats) {
  runtime::Context context(engine, kPatience);
  const runtime::Layout layout(floats, std::size_t{1} << 20);
  const auto model = engine.memory().allocate<float>(floats, "model");
  const std::size_t before = engine.memory().held_bytes();
  std::vector<AlgorithmMemory> all;
  for (const char* name : {"wagma", "flock"}) {
    const auto algorithm = algorithms::find_algorithm(name).make({context, layout, {}});
    algorithm->begin(0, model.span());
    AlgorithmMemory& memory = all.emplace_back();
    memory.algorithm = name;
    memory.staging_bytes = engine.memory().held()[runtime::RoundParts::kStaging];
    memory.models = static_cast<double>(engine.memory().held_bytes() - before - memory.staging_bytes) /
                    static_cast<double>(model.span().size_bytes());
  }
  return all;
}

// Both readings are requests to the agent, as an arrival is: its back-off begins anew at the first.
double measure_idle_agent(engines::Engine& engine) {
  runtime::Context context(engine, kPatience);
  runtime::PublishedModel published(context, 1);
  runtime::RoundAgent agent(context, rounds_without_end(engine.size(), math::default_group_size(engine.size())), 1, 1,
                            published);
  double begin = 0, end = 0;
  meet(context);
  agent.at_rest([&] { begin = thread_seconds(); });
  const base::Time start = engine.now();
  engine.sleep(kIdle);
  agent.at_rest([&] { end = thread_seconds(); });
  const double share = (end - begin) / (engine.now() - start).count();
  meet(context);
  return std::ranges::max(runtime::gather_doubles(context, {&share, 1}));
}

}  // namespace flockstep::bench
