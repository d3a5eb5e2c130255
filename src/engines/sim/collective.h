// One collective operation of all workers. They share an address space, so the data are copied from span to span; what
// is simulated is the time this takes on the network.
//
// The data are copied when the last worker has joined, which is allowed since all spans belong to the engine until the
// operation is done, so nobody is done earlier.
//
// Barriers and broadcasts follow schedules.h. Their short messages are too small to be noticed beside data, as control
// messages are: when all have joined, it is computed when each worker has what it waits for. What is longer becomes
// flows: each worker starts its own when it joins, as bundle.h says, and all are done at once when all flows have
// arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engines/engine.h"
#include "engines/sim/blocks.h"
#include "engines/sim/simulator.h"

namespace flockstep::engines::sim {

class SimWorld;

class Collective : public std::enable_shared_from_this<Collective> {
 public:
  enum class Kind { all_to_all, all_gather, broadcast, barrier };
  struct Call {  // what one worker brings: a block for, and from, every worker; its own are never used
    Kind kind = Kind::barrier;
    int root = 0;             // of a broadcast
    std::uint32_t owner = 0;  // see Engine::issue_for()
    Traffic traffic = Traffic::data;
    std::size_t bytes_for_all = 0;  // what its blocks for others come to; of a broadcast the length
    Blocks<const std::byte> send;
    Blocks<std::byte> receive;
  };

  Collective(SimWorld& world, std::uint64_t sequence);

  // Where this call does not fit the others', breaks the world with Error{mismatch} and throws it. May switch.
  void join(int rank, Call call);
  // Of an operation that is not needed any more; before it is done, this breaks the world. May switch.
  void leave(int rank);
  bool joined_by_all() const;
  std::vector<int> missing() const;  // who has not joined
  bool done(int rank) const { return is_done_[static_cast<std::size_t>(rank)]; }

 private:
  void check_kind(int rank, const Call& call);
  void copy();
  // `bytes`, which are yet to grow, from `rank` to the others, in equal shares where `blocks` does not say otherwise.
  void start_flows(int rank, double bytes, const Blocks<const std::byte>* blocks);
  std::vector<Flow> flows_of(int rank, double bytes, const Blocks<const std::byte>* blocks) const;
  bool is_in_waves() const;
  void start_flows_of(int rank);
  void exchange_slices(int rank);
  void advance();  // after a join or an arrival
  std::vector<double> ends_of_waves() const;
  void end(const std::vector<double>& at_s);    // each worker's part, at its time or now
  void end_for(const std::vector<int>& ranks);  // now
  [[noreturn]] void mismatch(const std::string& sentence);

  SimWorld& world_;
  std::uint64_t sequence_;
  Kind kind_ = Kind::barrier;  // this and the next four: of the first to join
  Traffic traffic_ = Traffic::data;
  int root_ = 0;
  std::uint32_t owner_ = 0;
  std::size_t length_ = 0;
  bool in_slices_ = false;        // as goes_in_slices() says of a broadcast
  std::vector<int> joined_;       // ranks, in order of joining
  std::vector<double> joined_s_;  // when; by rank
  std::vector<Call> calls_;       // by rank; empty again once copied
  int flows_under_way_ = 0;
  bool scattered_ = false;     // every worker has its part of a broadcast
  bool is_ending_ = false;     // all have joined, and all flows have arrived
  std::vector<bool> is_done_;  // by rank
};

}  // namespace flockstep::engines::sim
