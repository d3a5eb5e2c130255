// Who lives, as far as is known: of each rank the newest incarnation that was heard of, and whether it is lost.
//
// What is known of a rank only ever grows, so that the knowledge of two members becomes one by taking the newer of
// each. One's word is enough for a loss; but a member counts another one among the living only once that one has said
// so itself: then there is a connection to it.
#pragma once

#include <cstdint>

#include "protocol/message.h"

namespace flockstep::protocol {

class Roster {
 public:
  // Everybody lives, under the first incarnation.
  explicit Roster(int ranks);
  // Nobody was heard of but this one.
  static Roster alone(int rank, Incarnation incarnation);
  // As a message says that is not from a roster where everybody lives.
  explicit Roster(const Versions& versions);

  int ranks() const { return static_cast<int>(versions_.size()); }
  bool lives(int rank) const { return rank < ranks() && version(rank) % 2 == 1; }
  bool lives(int rank, Incarnation incarnation) const { return rank < ranks() && version(rank) == living(incarnation); }
  bool has_lost(int rank, Incarnation incarnation) const {
    return rank < ranks() && version(rank) >= living(incarnation) + 1;
  }
  const Ranks& lost() const { return lost_; }  // and those who were never heard of
  int count() const { return ranks() - static_cast<int>(lost_.size()); }
  int lowest() const;  // of the living; ranks() where there is none
  // The first that a rank may come back under.
  Incarnation next_incarnation(int rank) const { return (version(rank) + 1) / 2 + 1; }

  // Whether anything is new.
  bool add(int rank, Incarnation incarnation);
  bool lose(int rank, Incarnation incarnation);
  // All that the other one knows, but for who lives.
  bool learn_losses(const Roster& other);

  // Whether the other one may yet become equal to this one by learning more, and has to.
  bool is_ahead_of(const Roster& other) const;

  // Empty where everybody still lives who was there from the beginning.
  Versions versions() const;

 private:
  static Version living(Incarnation incarnation) { return 2 * incarnation - 1; }
  Version version(int rank) const { return rank < ranks() ? versions_[static_cast<std::size_t>(rank)] : 0; }
  bool raise(int rank, Version version);
  void count_lost();

  bool is_fixed_;      // it began with everybody
  Versions versions_;  // 0: never heard of; 2k - 1: incarnation k lives; 2k: it is lost
  Ranks lost_;
};

}  // namespace flockstep::protocol
