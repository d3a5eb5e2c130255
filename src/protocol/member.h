// One worker's side of wait-avoiding group averaging, without I/O: it is told what happened, and says what to do.
//
// A worker that ends iteration t arrives at round t. The policy (Activation) starts the round once, for all groups;
// then every member contributes what its worker has published last, whether it has arrived or not, and the group
// averages that in chunks. A member runs every round once, in order. The worker goes on when round t has run here, and,
// with a rolling bound, when nobody is too far behind.
//
// Groups keep the schedule of all workers and leave lost ones out. Members of a group who differ about who takes part
// begin the round again without any that one of them leaves out; who has completed it keeps the result, and is left
// out. Workers may leave for a while and come back (Membership): groups leave them out as they do the lost, from a
// round on that all agree on, and their agents go on to hand on words.
//
// Where workers come and go (Options::elastic) a member begins alone and joins those that it meets (Admission), as one
// a worker that was away and comes back. A member that the others count as lost hears of it and is expelled: it has to
// begin again. So does a worker that was joining when all members that take part are lost.
//
// Not here: numbers, buffers, clocks, threads. Messages between two members arrive once and in order unless an end
// crashes; those of different pairs in any order.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/activator.h"
#include "protocol/admission.h"
#include "protocol/group_average.h"
#include "protocol/membership.h"
#include "protocol/minimum.h"
#include "protocol/schedule.h"

namespace flockstep::protocol {

class Member {
 public:
  Member(const Options& options, int rank, Incarnation incarnation = 1);

  // What has to be done, in order. `now` never goes back.
  std::vector<Action> step(base::Time now, const Event& event);

  // The newest round that the worker has arrived at, and the one that all others have to have arrived at before it may
  // go on, if the policy wants everybody.
  Iteration arrived() const { return arrived_; }
  Iteration needed() const { return waits_for_minimum_ ? arrived_ + 1 - options_.period : arrived_; }
  // The newest round that is complete here; first - 1 before any is.
  Iteration executed() const { return executed_; }
  // The newest round that is known to run and that this member takes part in, or has.
  Iteration newest() const;
  // Nothing is left to do here up to this round, which is the newest of all; no agreement about who takes part, either.
  bool is_done_until(Iteration newest) const;
  // Who started the round: the lowest rank of those heard of; -1 where nobody was, as for synchronisations.
  int activator_of(Iteration round) const { return activator_.root_of(round); }

 private:
  void handle(const Arrived& event);
  void handle(const Received& event);
  void handle(const PartReceived& event);
  void handle(const PartSent& event);
  void handle(const Tick& event);
  void handle(const PeerLost& event);
  void handle(const Leaves& event);
  void handle(const ComesBack& event);
  void handle(const Adopted& event);
  void handle(const Forgone& event);
  void handle(const Met& event);
  void handle(const Withdrawn& event);
  void handle(const MayBegin& event);

  Turn turn() { return {now_, roster_, attendance_, actions_}; }
  void ask_to_be_woken();
  bool ends_period(Iteration round) const;
  bool is_synchronisation(Iteration round) const;
  bool may_begin(Iteration round) const;
  Ranks group_of(Iteration round) const;
  void advance();
  void begin_flight(Iteration round);
  void end_flight();
  void release_worker();
  bool lingers() const;
  void advance_stay();
  void fetch_or_return();
  void ask_to_return();
  void rejoin();
  Ranks lost_of(const Ranks& ranks) const;  // also those who were never heard of
  Ranks absent_in(Iteration round) const;
  void leave_out(Iteration round, const Ranks& ranks, int said_by);
  bool has_completed_with(int peer, const Message& message) const;
  void say_absent(int peer, Iteration round, const Ranks& ranks);

  // ---- who lives ----
  void note_strangers(const Roster& theirs);
  void forget_known_strangers();
  void lose_strangers();
  base::Time patience_with(int rank, base::Time since) const;
  bool hears(const Received& event);  // whether the message counts, once what it says of others is known
  bool is_too_early(const Received& event);
  void hear_again();
  void on_losses();
  bool is_left_alone() const;
  void forgo();
  void on_greeting(int peer, const Message& message);
  bool is_apart_from(int peer) const;
  void give_way_or_lose(int peer);
  void give_way();
  void add(int peer);
  void add_as_greeted(int peer);
  void greet(int peer);
  void greet_strangers();
  void join_or_found();
  void become_part_of(Roster roster);
  void expel(int by, const Roster& theirs);

  Options options_;
  int rank_;
  mutable std::map<int, Schedule> schedules_;  // by how many ranks there are
  Roster roster_;
  Admission admission_;
  Membership attendance_;
  Activator activator_;
  Minimum minimum_;
  base::Time now_{};
  std::vector<Action> actions_;
  bool is_expelled_ = false;
  bool must_give_way_ = false;  // if there is a stronger half: fewer live here than before
  // Whom others count among the living, and this member has not heard from, since when. While it does not know them the
  // trees of the two differ, and nothing is counted: so this does not last.
  std::map<std::pair<int, Incarnation>, base::Time> strangers_;
  base::Time wake_at_ = base::Time::max();  // as was asked for last

  Iteration arrived_;   // newest iteration that the worker has ended
  Iteration executed_;  // newest round that is complete
  Iteration merged_;    // newest round whose average was merged
  bool waits_for_round_ = false, waits_for_minimum_ = false;
  bool behind_ = false;        // the round that the worker arrived at had run by then
  bool fresh_ = false;         // the newest round that began took the model of its own iteration
  Iteration synchronises_at_;  // the newest round that the worker asked to be a synchronisation
  // Its members, from when it is complete here: the worker may end then, and is not to before they have it, too.
  Ranks lingers_for_;
  std::map<int, Iteration> completed_;  // the newest of such rounds, by who has said so

  enum class Stay { present, leaving, away, fetching, returning, outside } stay_ = Stay::present;
  bool wants_back_ = false;
  std::optional<int> told_unmet_;  // that this one keeps it from joining
  bool brings_no_model_ = false;   // it is about to join, and its own model is not of the run
  int donor_ = -1;                 // the peer that sends its model
  bool is_forgoing_ = false;       // it, since the donor is lost

  std::optional<GroupAverage> flight_;
  struct Attempt {
    Ranks members, absent;
  };
  std::map<Iteration, Attempt> attempts_;  // by which the newest rounds were completed
  // Of the round under way and of those to come, by who has said so; what the lost have said does not count. What a
  // round has begun without is this member's own word.
  std::map<Iteration, std::map<int, Ranks>> absent_;
  std::vector<Received> ahead_;              // words about trees of those who know more than this member
  std::vector<std::pair<int, Part>> early_;  // parts of rounds, or of attempts, that have not begun here
};

}  // namespace flockstep::protocol
