// What a worker and its agent keep beside the protocol, as symbols: every part of a chunk knows whose contributions it
// was summed from. Nothing here judges; the checkers look at it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/events.h"
#include "protocol/grid.h"
#include "simulation/scenario.h"

namespace flockstep::simulation {

// Workers as bits: all that are simulated fit.
using RankSet = std::uint64_t;
inline RankSet bit(int rank) { return RankSet{1} << rank; }
inline RankSet set_of(const protocol::Ranks& ranks) {
  RankSet set = 0;
  for (const int rank : ranks) set |= bit(rank);
  return set;
}
inline bool contains(RankSet set, int rank) { return (set & bit(rank)) != 0; }
inline int size_of(RankSet set) { return std::popcount(set); }

// The piece of a chunk that one member averages: what it is the sum of.
struct Piece {
  RankSet once = 0, more = 0;  // who is in it, and who is in it more than once
  std::uint64_t origin = 0;    // sum of the marks of the contributions in it

  void add(const Piece& other);
};

using Pieces = std::vector<Piece>;  // what a part carries: those of a column from the first row on, or one

// What one Freeze took.
struct Contribution {
  int rank = 0;
  Iteration round = 0, version = 0;  // version: what the worker had really published
  RankSet members = 0;
};
// Marks add up to different sums, but for accidents of one in 2^64.
inline std::uint64_t mark_of(std::size_t contribution) { return (contribution + 1) * 0x9e3779b97f4a7c15u; }

class StandIn {
 public:
  StandIn(const Scenario& scenario, int rank);

  struct Flight {
    Iteration round = 0;
    protocol::Ranks members, absent;
    std::size_t contribution = 0;
    protocol::Grid grid;
    protocol::Ranks left_out{};  // at the next attempt, as the member has told others; absent while this one goes on
  };

  // ---- the worker ----
  void arrive(Iteration iteration) { version_ = iteration; }
  void merge(const protocol::Merge& merge) { merged_ = merge.iteration; }
  void proceed(const protocol::Proceed& proceed) { begun_ = proceed.iteration; }
  void rejoin(const protocol::Rejoin& rejoin) { version_ = merged_ = executed_ = begun_ = rejoin.iteration - 1; }

  // ---- its agent ----
  Contribution freeze(const protocol::Freeze& freeze, const protocol::Ranks& group, std::size_t contribution);
  void leave_out(Iteration round, const protocol::Ranks& ranks);
  Pieces read(int peer, const protocol::Part& part) const;  // what its part to the peer holds at this moment
  void receive(int peer, const protocol::Part& part, const Pieces& pieces);
  void add_row(int chunk);
  void sum(int chunk);
  void place(int peer, int chunk);
  void complete(const protocol::Complete& complete);

  // ---- for whoever looks ----
  Iteration version() const { return version_; }  // of what is published: the newest iteration that has arrived
  Iteration merged() const { return merged_; }    // newest iteration that was merged
  Iteration begun() const { return begun_; }      // newest iteration that was begun
  Iteration executed() const { return executed_; }
  const std::optional<Flight>& flight() const { return flight_; }
  const Piece& piece(int chunk, int owner) const { return pieces_[index_of(chunk, owner)]; }
  const Piece& row_sum(int chunk, int owner) const { return row_sums_[index_of(chunk, owner)]; }
  // In the round under way, by the owners of the pieces: a member's column, and what it averages for this worker.
  protocol::Ranks column_of(int member) const;
  protocol::Ranks averaged_by(int member) const;
  int staged() const { return static_cast<int>(staged_.size()); }  // parts received for rounds that have not ended

 private:
  struct Staged {
    int peer;
    protocol::Part part;
    Pieces pieces;
  };

  std::size_t index_of(int chunk, int owner) const { return static_cast<std::size_t>(chunk * workers_ + owner); }
  int place_of(int member) const;  // among the members
  bool is_in_row(int member) const;
  Piece contribution_of(int member, int chunk, std::size_t number) const;
  const Pieces* find_staged(int peer, protocol::Phase phase, int chunk) const;

  int workers_, rank_, chunks_;
  Iteration version_, merged_, begun_, executed_;
  std::optional<Flight> flight_;
  int direct_;
  std::vector<Piece> pieces_;    // contributions, and averages that took their place; by owner
  std::vector<Piece> row_sums_;  // of one's own column
  std::vector<Staged> staged_;
};

}  // namespace flockstep::simulation
