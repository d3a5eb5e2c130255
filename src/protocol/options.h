// What all members of one protocol must agree on.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "protocol/message.h"

namespace flockstep::protocol {

enum class Sync {
  barrier,  // the last round of every period waits for every worker and makes all models equal
  rolling,  // nobody is more than a period ahead of the slowest; the last round of a period is over all, unwaited for
  none,     // rounds over groups for ever: nothing bounds how far a worker falls behind
};

// Who starts a round: one decision for all groups.
enum class Activation {
  first,      // the first worker to arrive
  majority,   // half of the workers, rounded down, at least one
  quorum,     // so many workers
  deadline,   // so long after the first one, or when all are there
  appointed,  // one worker, drawn for each round
};

// Who averages with whom in the rounds that are not over all.
enum class Grouping {
  dynamic,  // other groups in every round: math::GroupSchedule
  fixed,    // those of round 0 in every round
  nodes,    // inside nodes, and across them at times: math::NodeSchedule
};

struct Options {
  int workers = 2;     // >= 2
  int group_size = 2;  // S, in 2..workers; with Grouping::nodes workers of a node, >= 1
  Grouping groups = Grouping::dynamic;
  Iteration across = 4;      // nodes: every so many rounds one goes across them, >= 2
  std::vector<int> nodes{};  // nodes: workers of the first ones, where these are not `group_size` each
  Sync sync = Sync::barrier;
  Iteration period = 10;  // tau, >= 1
  Activation activation = Activation::first;
  int quorum = 1;              // for quorum: 1..workers, of the living
  base::Duration deadline{0};  // for deadline; zero: twice the median lateness of recent arrivals
  std::uint64_t seed = 1;      // of the appointed
  Iteration first = 0;         // iteration that the run begins with
  int chunks = 1;              // >= 1, that a model travels in
  int window = 2;              // >= 1, chunks under way at once
  int direct = 64;             // >= 1, members that exchange parts each with each other; more stand in a Grid
  // Workers come and go: each begins alone, and joins those that it meets; see Admission. `workers` is how many are
  // expected at first.
  bool elastic = false;
  base::Duration patience{10};    // elastic: with those who are missing, before the first begin without them
  std::uint64_t fingerprint = 0;  // elastic: of whatever else has to be equal
};

}  // namespace flockstep::protocol
