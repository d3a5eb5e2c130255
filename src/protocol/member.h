// One worker's side of wait-avoiding group averaging, without I/O: it is told what happened, and says what to do.
//
// A worker that ends iteration t arrives at round t. The policy (Activation) starts the round once, for all groups; then
// every member contributes what its worker has published last, whether it has arrived or not, and the group averages
// that in chunks. A member runs every round once, in order. The worker goes on when round t has run here, and, with a
// rolling bound, when nobody is too far behind.
//
// Not here: numbers, buffers, clocks, threads. Messages between two members arrive once and in order unless an end
// crashes; those of different pairs in any order.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "math/groups.h"
#include "protocol/activator.h"
#include "protocol/events.h"
#include "protocol/group_average.h"
#include "protocol/minimum.h"
#include "protocol/options.h"

namespace flockstep::protocol {

class Member {
 public:
  Member(const Options& options, int rank);

  // What has to be done, in order. `now` never goes back.
  std::vector<Action> step(base::Time now, const Event& event);

  // The newest round that is complete here; first - 1 before any is.
  Iteration executed() const { return executed_; }
  // No round is under way.
  bool idle() const { return !flight_; }
  // Who started the round, as far as is known here; itself, the counter of arrivals, or the root it heard of first.
  int activator_of(Iteration round) const { return activator_.root_of(round); }

 private:
  void handle(const Arrived& event);
  void handle(const Received& event);
  void handle(const PartReceived& event);
  void handle(const PartSent& event);
  void handle(const Tick&) {}
  void handle(const PeerLost& event);

  bool is_synchronisation(Iteration round) const;
  bool may_begin(Iteration round) const;
  Ranks group_of(Iteration round) const;
  void advance();
  void begin_flight(Iteration round);
  void end_flight();
  void leave_out(Iteration round, const Ranks& ranks);
  void learn_lost(const Ranks& ranks);
  void answer_late(int peer, Iteration round);
  void release_worker();

  const Options options_;
  const int rank_;
  const math::GroupSchedule schedule_;
  base::Time now_{};
  std::vector<Action> actions_;

  Ranks lost_;
  Activator activator_;
  Minimum minimum_;

  Iteration arrived_;    // newest iteration that the worker has ended
  Iteration executed_;   // newest round that is complete
  Iteration merged_;     // newest round whose average was merged
  bool waits_for_round_ = false, waits_for_minimum_ = false;
  bool fresh_ = false;   // whether the newest round took the model of its own iteration
  bool newest_was_synchronisation_ = false;

  std::optional<GroupAverage> flight_;
  std::map<Iteration, Ranks> absent_;               // of the round under way and of those to come
  std::vector<std::pair<int, Part>> early_;         // parts of rounds, or of attempts, that have not begun
};

}  // namespace flockstep::protocol
