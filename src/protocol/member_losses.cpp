// The part of Member that is about workers who are lost, and about who takes no part in a round.
#include <algorithm>
#include <iterator>

#include "protocol/member.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {

void Member::handle(const PeerLost& event) {
  if (options_.elastic) {
    if (admission_.has_met(event.peer) && admission_.incarnation_of(event.peer) == event.incarnation)
      admission_.on_lost(event.peer);
    if (stay_ == Stay::outside) return join_or_found();
    if (!roster_.lives(event.peer, event.incarnation)) return;
  }
  if (roster_.lose(event.peer, event.incarnation)) on_losses();
}

// A word of who is lost to this member counts nothing, and that this member is lost to its sender counts a lot.
bool Member::hears(const Received& event) {
  const auto& [peer, message] = event;
  if (!options_.elastic) {
    if (!message.roster.empty() && roster_.learn_losses(Roster(message.roster))) on_losses();
    return true;
  }
  if (message.kind == Message::Kind::greeting) {
    on_greeting(peer, message);
    return false;
  }
  if (!admission_.is_in() || !admission_.has_met(peer) || !roster_.lives(peer, admission_.incarnation_of(peer)))
    return false;
  const Roster theirs(message.roster);
  if (theirs.has_lost(rank_, admission_.incarnation())) {
    expel(peer, theirs);
    return false;
  }
  if (roster_.learn_losses(theirs)) on_losses();
  if (is_expelled_) return false;
  note_strangers(theirs);
  // Else it was said to an earlier incarnation, of whose end the sender has yet to hear.
  return roster_.lives(peer) && theirs.lives(rank_, admission_.incarnation());
}

// A count stands for those below its sender in the sender's tree. Who has not heard yet of one who has joined keeps it.
bool Member::is_too_early(const Received& event) {
  const Message& message = event.message;
  if (!options_.elastic || (message.kind != Message::Kind::finished && message.kind != Message::Kind::count_me))
    return false;
  if (!Roster(message.roster).is_ahead_of(roster_)) return false;
  ahead_.push_back(event);
  return true;
}

void Member::hear_again() {
  if (ahead_.empty()) return;
  for (const Received& event : std::exchange(ahead_, {}))
    if (roster_.lives(event.peer) && !is_expelled_) handle(event);
}

// Of another one's model some may still arrive: none is fetched, and the worker does not begin, before that is over.
void Member::forgo() {
  if (!options_.elastic) {
    stay_ = Stay::away;
  } else if (!std::exchange(is_forgoing_, true)) {
    actions_.push_back(Forgo{});
  }
}

// What a worker that joins has heard so far counts only among those that it joins: the minimum, rounds that run, the
// size of the schedule. When all of them that take part are lost, it must not take that along to another half.
bool Member::is_left_alone() const {
  if (!brings_no_model_) return false;
  return std::ranges::none_of(admission_.met(), [this](int peer) {
    return admission_.has_model(peer) && roster_.lives(peer, admission_.incarnation_of(peer));
  });
}

void Member::on_losses() {
  if (is_left_alone()) return expel(rank_, roster_);
  attendance_.on_roster(turn());
  if (stay_ == Stay::fetching && !roster_.lives(donor_)) forgo();
  activator_.on_roster(turn());
  if (options_.sync == Sync::rolling) minimum_.on_roster(turn());
  std::erase_if(early_, [this](const auto& early) { return !roster_.lives(early.first); });
  std::erase_if(ahead_, [this](const Received& event) { return !roster_.lives(event.peer); });
  lingers_for_ = without(lingers_for_, lost_of(lingers_for_));
  if (flight_) leave_out(flight_->round(), lost_of(flight_->members()), rank_);
  // Also those of this flock: they may never have heard of the one who is lost, and know less from now on.
  for (const int peer : admission_.met()) greet(peer);
  if (options_.elastic) must_give_way_ = true;
}

Ranks Member::lost_of(const Ranks& ranks) const {
  Ranks lost;
  std::ranges::copy_if(ranks, std::back_inserter(lost), [this](int rank) { return !roster_.lives(rank); });
  return lost;
}

// Who was lost may have begun a round without one who, as nobody else had begun it, takes part in it again.
Ranks Member::absent_in(Iteration round) const {
  Ranks absent;
  if (const auto found = absent_.find(round); found != absent_.end())
    for (const auto& [who, ranks] : found->second)
      if (roster_.lives(who)) absent = united(absent, ranks);
  return absent;
}

// A round that is under way begins again, once what was sent is off.
void Member::leave_out(Iteration round, const Ranks& ranks, int said_by) {
  if (!roster_.lives(said_by) || is_within(ranks, absent_in(round))) return;
  const bool is_under_way = flight_ && flight_->round() == round;
  Ranks& its = absent_[round][is_under_way ? rank_ : said_by];
  its = united(its, ranks);
  if (!is_under_way) return;
  const Ranks absent = absent_in(round);
  if (!flight_->abandoned()) actions_.push_back(Withdraw{round});
  flight_->abandon();
  for (const int peer : without(group_of(round), absent))
    if (peer != rank_) say_absent(peer, round, absent);
}

void Member::say_absent(int peer, Iteration round, const Ranks& ranks) {
  turn().send(peer, {.kind = Message::Kind::absent, .number = round, .ranks = ranks});
}

}  // namespace flockstep::protocol
