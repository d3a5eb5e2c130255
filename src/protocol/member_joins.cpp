// The part of Member that is about workers who come and go.
#include "base/check.h"
#include "protocol/member.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {

void Member::handle(const Met& event) {
  base::check(options_.elastic, "workers that come and go");
  admission_.on_met(event.peer, event.incarnation);
  greet(event.peer);
}

void Member::greet(int peer) {
  Standing standing = wants_back_ ? Standing::ready : Standing::idle;
  if (stay_ != Stay::outside)
    standing = stay_ == Stay::present || stay_ == Stay::leaving ? Standing::present : Standing::in;
  const Greeting greeting{standing,           options_.fingerprint,    admission_.flock(),
                          admission_.ranks(), admission_.group_size(), roster_,
                          attendance_.told()};
  turn().send(peer, greeting.message());
}

// Those who are part of this flock hear of everything anyway.
void Member::greet_strangers() {
  for (const int peer : admission_.met())
    if (!admission_.is_in() || !roster_.lives(peer, admission_.incarnation_of(peer))) greet(peer);
}

void Member::on_greeting(int peer, const Message& message) {
  const auto greeting = Greeting::from(message);
  if (!greeting || !admission_.has_met(peer)) return;
  if (greeting->fingerprint != options_.fingerprint) {
    if (!admission_.is_in() && wants_back_) actions_.push_back(Refused{peer});
    return;
  }
  admission_.on_greeting(peer, *greeting);
  if (!admission_.is_in()) return join_or_found();
  if (greeting->standing < Standing::in) return;
  if (is_apart_from(peer)) return give_way_or_lose(peer);
  if (greeting->roster.has_lost(rank_, admission_.incarnation())) return expel(peer, greeting->roster);
  if (roster_.has_lost(peer, admission_.incarnation_of(peer))) return;
  if (roster_.learn_losses(greeting->roster)) on_losses();
  if (is_expelled_) return;
  add_as_greeted(peer);
  note_strangers(greeting->roster);
}

// Besides other flocks: two who take part in rounds, and of whom one has not asked the other, belong to halves that
// have gone on without each other, whoever began the flock; and so does one whom the other half has lost.
bool Member::is_apart_from(int peer) const {
  const Greeting& greeting = admission_.greeting_of(peer);
  if (greeting.flock != admission_.flock()) return true;
  if (stay_ != Stay::present && stay_ != Stay::leaving) return false;
  if (greeting.roster.has_lost(rank_, admission_.incarnation()))
    return !roster_.lives(peer, admission_.incarnation_of(peer));
  return greeting.standing == Standing::present && !greeting.roster.lives(rank_, admission_.incarnation());
}

// The weaker half joins the other.
void Member::give_way_or_lose(int peer) {
  const Greeting& theirs = admission_.greeting_of(peer);
  const Incarnation incarnation = admission_.incarnation_of(peer);
  const bool lives_here = roster_.lives(peer, incarnation);
  Roster ours = roster_;
  if (lives_here) ours.lose(peer, incarnation);
  if (is_stronger(theirs.roster, ours) || (!is_stronger(ours, theirs.roster) && theirs.flock < admission_.flock()))
    return expel(peer, theirs.roster);
  if (lives_here && roster_.lose(peer, incarnation)) on_losses();
}

// This half may have become the weaker one.
void Member::give_way() {
  for (const int peer : admission_.met())
    if (!is_expelled_ && admission_.is_in_a_flock(peer) && is_apart_from(peer)) give_way_or_lose(peer);
}

void Member::add_as_greeted(int peer) {
  add(peer);
  attendance_.on_told(peer, admission_.greeting_of(peer).attendance);
  activator_.on_attendance(turn());
}

// Whatever an earlier incarnation has said is void. What this worker has told of itself the new one may not have heard.
void Member::add(int peer) {
  if (!roster_.add(peer, admission_.incarnation_of(peer))) return;
  for (auto& [round, words] : absent_) words.erase(peer);
  std::erase_if(early_, [peer](const auto& early) { return early.first == peer; });
  lingers_for_ = without(lingers_for_, {peer});
  completed_.erase(peer);
  std::erase_if(ahead_, [peer](const Received& event) { return event.peer == peer; });
  greet(peer);
  attendance_.on_added(turn(), peer);
  activator_.on_roster(turn());
  if (options_.sync == Sync::rolling) minimum_.on_roster(turn());
  greet_strangers();
}

// One that has greeted this member already is none.
void Member::note_strangers(const Roster& theirs) {
  for (int rank = 0; rank < theirs.ranks(); ++rank) {
    if (!theirs.lives(rank)) continue;
    const Incarnation incarnation = theirs.next_incarnation(rank) - 1;
    if (roster_.lives(rank, incarnation) || roster_.has_lost(rank, incarnation)) continue;
    if (admission_.has_met(rank) && admission_.incarnation_of(rank) == incarnation &&
        admission_.is_of_this_flock(rank) && !is_apart_from(rank))
      add_as_greeted(rank);
    else
      strangers_.try_emplace({rank, incarnation}, now_);
  }
}

void Member::forget_known_strangers() {
  std::erase_if(strangers_, [this](const auto& stranger) {
    const auto& [rank, incarnation] = stranger.first;
    return roster_.lives(rank, incarnation) || roster_.has_lost(rank, incarnation);
  });
}

// Two who cannot reach each other must not lose each other at once; and one who is not there yet is the one to go.
base::Time Member::patience_with(int rank, base::Time since) const {
  const bool is_there = stay_ == Stay::present || stay_ == Stay::leaving;
  return since + ((is_there ? 1 : 3) + (rank_ < rank ? 0 : 1)) * options_.patience;
}

void Member::lose_strangers() {
  if (strangers_.empty()) return;
  forget_known_strangers();
  bool is_any_lost = false;
  for (const auto& [stranger, since] : strangers_)
    if (now_ >= patience_with(stranger.first, since))
      is_any_lost = roster_.lose(stranger.first, stranger.second) || is_any_lost;
  if (is_any_lost) {
    forget_known_strangers();
    on_losses();
  }
}

void Member::join_or_found() {
  if (stay_ != Stay::outside || !wants_back_) return;
  if (const auto contact = admission_.contact()) {
    // Who was started anew may have got an incarnation that was used before.
    if (const Roster& theirs = admission_.greeting_of(*contact).roster;
        theirs.has_lost(rank_, admission_.incarnation()))
      return expel(*contact, theirs);
    admission_.join(*contact);
    options_.group_size = admission_.group_size();
    brings_no_model_ = true;
    become_part_of(admission_.greeting_of(*contact).roster);
  } else if (admission_.may_found(now_)) {
    actions_.push_back(AskToBegin{});
  } else if (const auto unmet = admission_.unmet();
             unmet && now_ >= admission_.found_at() && told_unmet_ != unmet->peer) {
    told_unmet_ = unmet->peer;
    actions_.push_back(WaitsFor{unmet->peer, unmet->by});
  }
}

// Its model may be older or newer than the options say: a checkpoint, or its own after it was expelled.
void Member::handle(const MayBegin& event) {
  if (stay_ != Stay::outside || !wants_back_ || admission_.contact()) return;
  arrived_ = executed_ = merged_ = synchronises_at_ = event.first - 1;
  admission_.found();
  become_part_of(Roster::alone(rank_, admission_.incarnation()));
}

void Member::become_part_of(Roster roster) {
  roster_ = std::move(roster);
  roster_.add(rank_, admission_.incarnation());
  attendance_.join(admission_.ranks());
  stay_ = Stay::away;
  for (const int peer : admission_.met()) greet(peer);  // before anything else is said as part of it
  const Roster known = roster_;  // a flock may have fallen apart: these belong to the half that is joined
  for (const int peer : admission_.met())
    if (admission_.is_of_this_flock(peer) && known.lives(peer, admission_.incarnation_of(peer))) add_as_greeted(peer);
  if (options_.sync == Sync::rolling) minimum_.on_roster(turn());
}

void Member::expel(int by, const Roster& theirs) {
  is_expelled_ = true;
  actions_.push_back(Expelled{by, std::max(roster_.next_incarnation(rank_), theirs.next_incarnation(rank_))});
}

}  // namespace flockstep::protocol
