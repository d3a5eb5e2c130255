// How workers that come and go find together: whom this one has met, what they say of themselves, and whom to join.
//
// Every worker begins alone and greets whom it meets. One that trains alone or with others is part of a flock. Who is
// part of none joins the largest that it knows; where nobody is, the lowest rank of those who are ready begins one:
// when as many are ready as are expected, or after a while.
//
// Where a network falls apart both halves train on, each without the other. When they meet again the smaller one joins
// the larger, and of two of the same size the one without the lowest rank: see is_stronger().
#pragma once

#include <map>
#include <optional>

#include "protocol/options.h"
#include "protocol/roster.h"

namespace flockstep::protocol {

enum class Standing : std::uint8_t {
  idle,     // part of no flock, and its worker is busy
  ready,    // the same, and its worker waits for one
  in,       // part of a flock, and away
  present,  // part of a flock, with a model to give
};

struct Greeting {
  Standing standing = Standing::idle;
  std::uint64_t fingerprint = 0;  // of options that have to be equal
  Iteration flock = 0;            // who began it, and when: 0 for none
  int ranks = 0, group_size = 0;  // of the flock's schedule when it began
  Roster roster;
  std::vector<Iteration> attendance{};  // see Membership::told

  static std::optional<Greeting> from(const Message& message);  // nothing for what is none
  Message message() const;
};

class Admission {
 public:
  Admission(const Options& options, int rank, Incarnation incarnation);

  Incarnation incarnation() const { return incarnation_; }
  bool is_in() const { return flock_ != 0; }
  Iteration flock() const { return flock_; }

  // ---- those who are met ----
  void on_met(int peer, Incarnation incarnation);
  void on_greeting(int peer, const Greeting& greeting) { peers_.at(peer).greeting = greeting; }
  void on_lost(int peer) { peers_.erase(peer); }
  void on_model(int peer, bool has_model);  // it is present, or not any more
  bool has_met(int peer) const { return peers_.contains(peer); }
  Ranks met() const;
  Incarnation incarnation_of(int peer) const { return peers_.at(peer).incarnation; }
  bool has_model(int peer) const;
  bool is_in_a_flock(int peer) const;
  // They are part of this worker's flock, or will be.
  bool is_of_this_flock(int peer) const;

  // ---- for one who is part of no flock ----
  void be_ready(base::Time now) { found_at_ = now + options_.patience; }
  base::Time found_at() const { return found_at_; }
  // Whose flock to join, once all of it is met.
  std::optional<int> contact() const;
  bool may_found(base::Time now) const;
  // While there is no contact: a worker that was not met, and one that counts it among the living.
  struct Unmet {
    int peer, by;
  };
  std::optional<Unmet> unmet() const;
  void join(int contact);
  void found();
  const Greeting& greeting_of(int peer) const { return *peers_.at(peer).greeting; }

  int ranks() const { return ranks_; }
  int group_size() const { return group_size_; }

 private:
  struct Peer {
    Incarnation incarnation;
    std::optional<Greeting> greeting;
  };
  std::optional<int> best_contact() const;  // met as a whole or not
  std::optional<int> first_unmet(const Greeting& greeting) const;

  Options options_;
  int rank_;
  Incarnation incarnation_;
  Iteration flock_ = 0;
  int ranks_, group_size_;
  base::Time found_at_{};
  std::map<int, Peer> peers_;
};

// Of two flocks, by who lives in them, whether the first is the one to join.
bool is_stronger(const Roster& one, const Roster& other);

}  // namespace flockstep::protocol
