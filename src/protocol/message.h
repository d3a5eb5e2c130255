// What members of the protocol say to each other in control messages, and the names of what they exchange beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace flockstep::protocol {

// Iterations of the workers and rounds share their numbers: round t is the one that iteration t ends with.
using Iteration = std::int64_t;
inline constexpr Iteration kAway = std::numeric_limits<Iteration>::max();  // of a worker that is not waited for
using Ranks = std::vector<int>;                                            // rising, each once
using Incarnation = std::uint32_t;                                         // of one rank: 1, 2 and so on
using Version = std::uint32_t;                                             // of what is known of one rank, see Roster
using Versions = std::vector<Version>;                                     // by rank
inline constexpr int kMostRanks = 1024;                                    // that may join

struct Message {
  enum class Kind : std::uint8_t {
    arrived,   // the sender's worker has arrived at round `number`: to the one who counts arrivals
    activate,  // round `number` runs: along the tree of `root`
    absent,    // `ranks` take no part in round `number`: they are lost, or have completed it already
    finished,  // everybody below the sender in the tree of the minimum has finished `number` iterations: upwards
    minimum,   // everybody has finished `number` iterations: downwards
    // Workers that are away for a while; the sender's own, but for the answers.
    leaving,    // the sender's worker has left: what is the newest round?
    returning,  // it wants to take part again: the same question
    newest,     // the answer: `number`, and none after it begins before more is heard
    away,       // the sender takes no part from round `number` on
    back,       // the sender takes part again from round `number` on; from there the schedule is up to rank `root`,
                // and from later rounds on up to others: `numbers`, as of `grown`
    wanted,     // the sender wants the receiver's model
    count_me,   // the minimum has to wait for worker `root`, for the time `ranks`, and for all below: upwards
    counted,    // the answer to `root`: everybody has finished `number`, which holds until the receiver says more
    // Workers that come and go with their machines.
    greeting,   // who the sender is: `number` is its Standing, `numbers` are those of Greeting
    completed,  // the sender has completed round `number`, after which workers may end
    asking,     // worker `root` is lost: has it told the receiver of a larger schedule?
    grown,      // the answer about `root`: `numbers` are rounds and ranks by turns
  };
  Kind kind = Kind::arrived;
  Iteration number = 0;
  int root = 0;
  Ranks ranks{};
  std::vector<Iteration> numbers{};
  Versions roster{};  // who lives, as the sender knows it

  bool tells_of_losses() const { return kind == Kind::absent || !roster.empty(); }
  bool operator==(const Message&) const = default;
};

std::vector<std::byte> to_bytes(const Message& message);
// Throws Error{mismatch} for what none of so many members says.
Message message_from_bytes(std::span<const std::byte> bytes, int workers);

// A part of a model on its way inside a group. The model is cut into chunks, and these as Grid says. `reduce`: in a row
// the sender's contribution to the receiver's column, in a column the sum of the sender's row for the receiver's piece.
// `gather`: averages, in a column the sender's piece, in a row its whole column.
enum class Phase : std::uint8_t { reduce, gather };
struct Part {
  Iteration round = 0;
  Phase phase = Phase::reduce;
  int chunk = 0;
  Ranks absent{};  // those of the group that take no part as far as the sender knows; parts meet where these are equal

  bool operator==(const Part&) const = default;
};

}  // namespace flockstep::protocol
