// One run with workers that come and go: a scenario, and what befalls them, all of it from one seed.
#pragma once

#include <algorithm>

#include "simulation/scenario.h"

namespace flockstep::simulation {

// A worker's process ends where it is, and the worker may be started anew after a while.
struct ElasticCrash {
  enum class When {
    calls,         // of the engine by this process
    time,          // after its process began
    gives,         // so many calls after it has begun to give its model
    synchronises,  // the same for its last round
  };
  When when = When::calls;
  int rank = 0;
  int life = 0;             // in which process of the rank, from 0
  std::int64_t calls = 0;   // see When
  double seconds = 0;       // for time
  double starts_after = 0;  // below 0: never
};

// Connections between those who live break.
struct Break {
  enum class Kind {
    suspicion,  // one decides; the other hears of it
    partition,  // those of each half lose those of the other, each at its own time
    link,       // so do two workers, for so long that all have to end meanwhile
  };
  Kind kind = Kind::suspicion;
  std::int64_t calls = 0;    // of the engine by all workers before
  int one = 0, other = 0;    // suspicion (the first decides), link
  std::vector<bool> half{};  // partition: by rank
  double heals_after = 0;

  bool separates(int a, int b) const {
    if (kind != Kind::partition) return std::minmax(a, b) == std::minmax(one, other);
    return half[static_cast<std::size_t>(a)] != half[static_cast<std::size_t>(b)];
  }
};

struct ElasticScenario {
  Scenario base;
  int ranks = 0;                    // the most there may ever be
  std::vector<double> start_after;  // by rank; growth comes late
  std::vector<ElasticCrash> crashes;
  std::vector<Break> breaks;
  Delays connect, close;      // until a connection is made, and until the second end hears that it has ended
  bool counts_models = true;  // numbers that show who is in an average, in place of real models
  bool stale_book = false;    // who is started anew knows nothing of incarnations that workers took by themselves

  bool has_growth() const { return ranks > base.options.workers; }
};

ElasticScenario draw_elastic(std::uint64_t seed);
// Without any of that: all workers are there from the beginning to the end.
inline ElasticScenario steady(const Scenario& base) {
  ElasticScenario scenario;
  scenario.base = base;
  scenario.ranks = base.options.workers;
  return scenario;
}

std::string describe(const Break& its);
std::string describe(const ElasticScenario& scenario);

}  // namespace flockstep::simulation
