// What runs have met.
#pragma once

#include <cstdint>

namespace flockstep::simulation {

struct Counts {
  std::int64_t events = 0, messages = 0, parts = 0, rounds = 0, grids = 0, merges = 0, fresh = 0, returns = 0,
               stops = 0, cut = 0, not_finite = 0;

  Counts& operator+=(const Counts& other) {
    events += other.events;
    messages += other.messages;
    parts += other.parts;
    rounds += other.rounds;
    grids += other.grids;
    merges += other.merges;
    fresh += other.fresh;
    returns += other.returns;
    stops += other.stops;
    cut += other.cut;
    not_finite += other.not_finite;
    return *this;
  }
};

}  // namespace flockstep::simulation
