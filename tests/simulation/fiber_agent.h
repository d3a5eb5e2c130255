// What seeded engines make for a worker and its agent, in a Cluster.
#pragma once

#include <utility>

#include "engines/engine.h"
#include "simulation/cluster.h"

namespace flockstep::simulation {

class RingingSignal final : public engines::Signal {
 public:
  RingingSignal(Cluster& cluster, int rank) : cluster_(cluster), rank_(rank) {}
  void raise() override {
    is_raised_ = true;
    cluster_.ring(rank_);
  }
  bool take() override { return std::exchange(is_raised_, false); }

 private:
  Cluster& cluster_;
  int rank_;
  bool is_raised_ = false;
};

class FiberAgent final : public engines::Agent {
 public:
  FiberAgent(Cluster& cluster, Cluster::Strand& strand) : cluster_(cluster), strand_(strand) {}
  ~FiberAgent() override { cluster_.join(strand_); }
  bool done() override { return strand_.fiber.is_over(); }

 private:
  Cluster& cluster_;
  Cluster::Strand& strand_;
};

}  // namespace flockstep::simulation
