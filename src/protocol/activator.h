// Decides that a round runs, once for all groups, and spreads the word.
//
// The word travels down the binomial tree of whoever decided. Where several decide at once, a member hands on the word
// of a root only if it is lower than every root it has handed on for that round: the lowest root's tree is then never
// cut, so the word reaches everybody, and few of the other trees' messages are sent. A round runs only after all before
// it were decided, so the word about one round is word about all earlier ones.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "protocol/options.h"
#include "protocol/turn.h"

namespace flockstep::protocol {

class Activator {
 public:
  Activator(const Options& options, int rank);

  // The newest round that runs; first - 1 before any does.
  Iteration newest() const { return newest_; }
  // The lowest root that was heard of; -1 for a round of which nothing was heard, or too long ago.
  int root_of(Iteration round) const;

  // The worker has arrived at a round that needs a decision.
  void arrived(const Turn& turn, Iteration round);
  // Messages of these kinds; what they say of lost workers is known already.
  void on_arrived(const Turn& turn, int peer, const Message& message);
  void on_activate(const Turn& turn, const Message& message);
  void on_tick(const Turn& turn);
  // turn.roster has changed. What lost ones have said is forgotten.
  void on_roster(const Turn& turn);
  // turn.attendance has changed.
  void on_attendance(const Turn& turn);
  // Nobody needs to hear of rounds before this one any more.
  void forget_before(Iteration round);

 private:
  struct Arrivals {
    Ranks ranks;
    base::Time first;
  };

  void activate(const Turn& turn, Iteration round, int root);
  void count(const Turn& turn, Iteration round, int rank);
  void decide(const Turn& turn, Iteration round);
  void decide_all(const Turn& turn);
  bool is_counted() const;
  Ranks missing_at(const Turn& turn, Iteration round) const;            // who will not arrive there: lost, or away
  int present_from(const Turn& turn, Iteration round, int rank) const;  // itself, or the next one that is not missing
  int counter_of(const Turn& turn, Iteration round) const;
  int appointed_for(const Turn& turn, Iteration round) const;
  std::optional<base::Duration> patience() const;

  Options options_;
  int rank_;
  Iteration newest_, own_, oldest_;         // own_: the newest arrival here; oldest_: earlier rounds are forgotten
  std::map<Iteration, int> roots_;          // the lowest root handed on, per round
  std::map<Iteration, Arrivals> arrivals_;  // at rounds that are counted here
  std::deque<base::Duration> lateness_;     // of recent arrivals after the first one
};

}  // namespace flockstep::protocol
