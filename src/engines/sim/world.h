// What the workers of one simulation share: the simulator, the collectives under way, and whether it is all over.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engines/schedules.h"
#include "engines/sim/collective.h"
#include "engines/sim/simulator.h"

namespace flockstep::engines::sim {

class SimWorld {
 public:
  SimWorld(int workers, const SimOptions& options);

  int size() const { return static_cast<int>(bells_.size()); }
  const SimOptions& options() const { return options_; }
  Simulator& simulator() { return simulator_; }
  // All others, in the order of the ring from the successor of `rank` on.
  std::span<const int> peers(int rank) const;
  Nodes nodes() const { return nodes_; }
  SimBell& bell(int rank) { return bells_[static_cast<std::size_t>(rank)]; }
  // As many bytes as these pretend to be: data grow with the model.
  double pretended(double bytes, Traffic traffic = Traffic::data) const {
    return traffic == Traffic::data ? bytes * options_.bytes_scale : bytes;
  }
  bool goes_in_slices(std::size_t bytes) const {
    return engines::goes_in_slices(pretended(static_cast<double>(bytes)), size());
  }
  // What a message of so many pretended bytes is to the network, or `count` messages with as many together.
  double simulated_bytes(double bytes, double count = 1) const;
  // Control messages do not grow with the model.
  double simulated_control_bytes(std::size_t bytes) const;

  // The collective that every worker issues as its number `sequence`; made by whoever comes first.
  std::shared_ptr<Collective> collective(std::uint64_t sequence);

  // Breaks the world for everybody, or does nothing where it is broken already. `rank` is who caused it, -1 nobody in
  // particular. From then on nothing is delivered, so memory given to the engine is free again. May switch.
  void fail(const Error& error, int rank);
  bool is_broken() const { return error_.has_value(); }
  void throw_if_broken() {
    if (is_broken()) throw_error();
  }
  [[noreturn]] void throw_error();

  // To be called while worker `rank` handles what ended it.
  void worker_threw(int rank);
  // What the run has to end with: what the culprit threw, else the first thing thrown, else an error that no worker has
  // seen. Null when all is well, or when the workers caught what happened and returned.
  std::exception_ptr outcome() const;

 private:
  SimOptions options_;
  Simulator simulator_;
  std::vector<SimBell> bells_;
  std::vector<int> ring_;                                // the ranks, twice around
  std::vector<int> nodes_;                               // of each rank; empty where all differ
  std::deque<std::shared_ptr<Collective>> collectives_;  // number first_collective_ and on
  std::uint64_t first_collective_ = 0;
  std::optional<Error> error_;
  int culprit_ = -1;
  bool error_seen_ = false;
  std::exception_ptr thrown_by_culprit_, thrown_first_;
};

}  // namespace flockstep::engines::sim
