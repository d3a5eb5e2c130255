#include "protocol/member.h"

#include <numeric>

#include "base/check.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {

Member::Member(const Options& options, int rank)
    : options_(options),
      rank_(rank),
      schedule_(options.workers, options.group_size),
      activator_(options, rank),
      minimum_(options, rank),
      arrived_(options.first - 1),
      executed_(arrived_),
      merged_(arrived_) {}

std::vector<Action> Member::step(base::Time now, const Event& event) {
  now_ = now;
  std::visit([this](const auto& what) { handle(what); }, event);
  advance();
  return std::exchange(actions_, {});
}

// ---- rounds ----

bool Member::ends_period(Iteration round) const {
  return options_.sync != Sync::none && (round + 1) % options_.period == 0;
}

bool Member::is_synchronisation(Iteration round) const { return options_.sync == Sync::barrier && ends_period(round); }

bool Member::may_begin(Iteration round) const {
  return is_synchronisation(round) ? arrived_ >= round : activator_.newest() >= round;
}

Ranks Member::group_of(Iteration round) const {
  if (!ends_period(round)) return schedule_.group_of(rank_, round);
  Ranks all(static_cast<std::size_t>(options_.workers));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void Member::advance() {
  while (true) {
    release_worker();
    if (!flight_) {
      if (!may_begin(executed_ + 1)) return;
      begin_flight(executed_ + 1);
    } else if (flight_->complete()) {
      end_flight();
    } else if (flight_->abandoned() && flight_->off()) {
      begin_flight(flight_->round());
    } else {
      return;
    }
  }
}

void Member::begin_flight(Iteration round) {
  const Ranks group = group_of(round);
  Ranks& absent = absent_[round];
  absent = united(absent, common(group, lost_));
  fresh_ = arrived_ == round;
  flight_.emplace(round, without(group, absent), absent, rank_, options_.chunks, options_.window);
  actions_.push_back(Freeze{round, arrived_, flight_->members(), is_synchronisation(round), ends_period(round)});
  flight_->begin(actions_);
  const auto early = std::exchange(early_, {});
  for (const auto& [peer, part] : early) handle(PartReceived{peer, part});
}

void Member::end_flight() {
  executed_ = flight_->round();
  actions_.push_back(Complete{executed_, static_cast<int>(flight_->members().size()), is_synchronisation(executed_)});
  flight_.reset();
  absent_.erase(absent_.begin(), absent_.upper_bound(executed_));
  std::erase_if(early_, [this](const auto& early) { return early.second.round <= executed_; });
  // Who started round `executed_` knew that everybody had finished all but the last period before it.
  activator_.forget_before(executed_ - options_.period);
}

// ---- the worker ----

void Member::handle(const Arrived& event) {
  base::check(event.iteration == arrived_ + 1 && !waits_for_round_ && !waits_for_minimum_,
              "a worker that arrives at every round in turn");
  arrived_ = event.iteration;
  behind_ = executed_ >= arrived_;
  waits_for_round_ = true;
  if (!is_synchronisation(arrived_)) activator_.arrived(turn(), arrived_);
}

void Member::release_worker() {
  if (waits_for_round_ && executed_ >= arrived_) {
    Outcome outcome = fresh_ ? Outcome::fresh : Outcome::stale_in_flight;
    if (behind_) outcome = merged_ < executed_ ? Outcome::stale_behind : Outcome::alone;
    if (is_synchronisation(arrived_)) outcome = Outcome::synchronised;
    actions_.push_back(Merge{arrived_, executed_, outcome});
    merged_ = executed_;
    waits_for_round_ = false;
    waits_for_minimum_ = true;
    if (options_.sync == Sync::rolling) minimum_.finished(turn(), arrived_ + 1);
  }
  if (waits_for_minimum_ && (options_.sync != Sync::rolling || minimum_.known() >= arrived_ + 2 - options_.period)) {
    waits_for_minimum_ = false;
    actions_.push_back(Proceed{arrived_ + 1});
  }
}

// ---- messages ----

void Member::handle(const Received& event) {
  const Message& message = event.message;
  learn_lost(message.lost);
  switch (message.kind) {
    case Message::Kind::arrived: return activator_.on_arrived(turn(), event.peer, message);
    case Message::Kind::activate: return activator_.on_activate(turn(), message);
    case Message::Kind::finished: return minimum_.on_finished(turn(), event.peer, message);
    case Message::Kind::minimum: return minimum_.on_minimum(turn(), message);
    case Message::Kind::absent:
      if (message.number > executed_)
        leave_out(message.number, message.ranks);
      else if (!contains(message.ranks, rank_) && !contains(message.ranks, event.peer))
        say_absent(event.peer, message.number, {rank_});
  }
}

void Member::handle(const PartReceived& event) {
  const auto& [peer, part] = event;
  if (part.round <= executed_) return say_absent(peer, part.round, {rank_});
  leave_out(part.round, part.absent);
  if (part.absent != absent_[part.round]) return;  // of an attempt that is void: its sender will hear of that
  if (flight_ && flight_->round() == part.round && !flight_->abandoned())
    flight_->received(actions_, peer, part);
  else
    early_.emplace_back(peer, part);
}

void Member::handle(const PartSent& event) {
  base::check(flight_.has_value(), "a round that lasts as long as its sends");
  flight_->sent(actions_, event.peer, event.part);
}

void Member::handle(const Tick&) { activator_.on_tick(turn()); }

// ---- losses ----

void Member::handle(const PeerLost& event) { learn_lost({event.peer}); }

void Member::learn_lost(const Ranks& ranks) {
  if (is_within(ranks, lost_)) return;
  lost_ = united(lost_, ranks);
  activator_.on_lost(turn());
  if (options_.sync == Sync::rolling) minimum_.on_lost(turn());
  if (flight_) leave_out(flight_->round(), common(group_of(flight_->round()), lost_));
}

// A round that is under way begins again, once what was sent is off.
void Member::leave_out(Iteration round, const Ranks& ranks) {
  Ranks& absent = absent_[round];
  if (is_within(ranks, absent)) return;
  absent = united(absent, ranks);
  if (!flight_ || flight_->round() != round) return;
  flight_->abandon();
  for (const int peer : without(group_of(round), absent))
    if (peer != rank_) say_absent(peer, round, absent);
}

void Member::say_absent(int peer, Iteration round, const Ranks& ranks) {
  turn().send(peer, {.kind = Message::Kind::absent, .number = round, .ranks = ranks});
}

}  // namespace flockstep::protocol
