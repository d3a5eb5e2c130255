#include "protocol/member.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {
namespace {

constexpr Iteration kRememberedAttempts = 64;

}  // namespace

Member::Member(const Options& options, int rank, Incarnation incarnation)
    : options_(options),
      rank_(rank),
      roster_(options.elastic ? Roster::alone(rank, incarnation) : Roster(options.workers)),
      admission_(options, rank, incarnation),
      attendance_(options, rank),
      activator_(options, rank),
      minimum_(options, rank),
      arrived_(options.first - 1),
      executed_(arrived_),
      merged_(arrived_),
      synchronises_at_(arrived_),
      stay_(options.elastic ? Stay::outside : Stay::present) {}

std::vector<Action> Member::step(base::Time now, const Event& event) {
  if (is_expelled_) return {};
  now_ = now;
  std::visit([this](const auto& what) { handle(what); }, event);
  if (!is_expelled_) hear_again();
  if (!is_expelled_) lose_strangers();
  if (!is_expelled_ && std::exchange(must_give_way_, false)) give_way();
  if (!is_expelled_) advance();
  ask_to_be_woken();
  return std::exchange(actions_, {});
}

// The activator asks for its own times alone; the earliest of all counts.
void Member::ask_to_be_woken() {
  if (wake_at_ <= now_) wake_at_ = base::Time::max();
  base::Time time = wake_at_;
  for (const Action& action : actions_)
    if (const auto* wake = std::get_if<WakeAt>(&action)) time = wake->time;
  for (const auto& [stranger, since] : strangers_) time = std::min(time, patience_with(stranger.first, since));
  if (strangers_.empty() || time == wake_at_ || is_expelled_) {
    wake_at_ = time;
    return;
  }
  wake_at_ = time;
  actions_.push_back(WakeAt{time});
}

// ---- rounds ----

bool Member::ends_period(Iteration round) const {
  return (options_.sync != Sync::none && (round + 1) % options_.period == 0) || round == synchronises_at_;
}

bool Member::is_synchronisation(Iteration round) const {
  return (options_.sync == Sync::barrier && ends_period(round)) || round == synchronises_at_;
}

// A worker that is away is not waited for; until all others know that it has left it may yet be expected, as agreed.
bool Member::may_begin(Iteration round) const {
  if (round > attendance_.limit() || !attendance_.takes_part(rank_, round)) return false;
  if (!is_synchronisation(round)) return activator_.newest() >= round;
  return arrived_ >= round || stay_ == Stay::away;
}

Iteration Member::newest() const { return std::max(activator_.newest(), flight_ ? flight_->round() : executed_); }

Ranks Member::group_of(Iteration round) const {
  const int ranks = attendance_.ranks_at(round);
  if (ends_period(round) || ranks == 1) {
    Ranks all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  return schedules_.try_emplace(ranks, options_, ranks).first->second.group_of(rank_, round);
}

void Member::advance() {
  while (true) {
    release_worker();
    attendance_.answer_postponed(turn(), newest());
    advance_stay();
    if (is_expelled_) return;
    if (!flight_) {
      if (!may_begin(executed_ + 1)) return;
      begin_flight(executed_ + 1);
    } else if (flight_->complete()) {
      end_flight();
    } else if (flight_->abandoned() && flight_->withdrawn()) {
      begin_flight(flight_->round());
    } else {
      return;
    }
  }
}

void Member::begin_flight(Iteration round) {
  const Ranks group = group_of(round);
  const Ranks absent = united(absent_in(round), united(lost_of(group), common(group, attendance_.away_at(round))));
  absent_[round][rank_] = absent;
  fresh_ = arrived_ == round;
  flight_.emplace(round, without(group, absent), absent, rank_, options_);
  actions_.push_back(Freeze{round, arrived_, flight_->members(), is_synchronisation(round), ends_period(round)});
  // A part that meets no other tells nothing; and others may have completed a round that is not the newest.
  if (options_.elastic && (!absent.empty() || activator_.newest() > round)) {
    for (const int peer : flight_->members())
      if (peer != rank_) say_absent(peer, round, absent);
    for (const int peer : common(group, absent))
      if (roster_.lives(peer) && attendance_.takes_part(peer, round)) say_absent(peer, round, {rank_});
  }
  flight_->begin(actions_);
  const auto early = std::exchange(early_, {});
  for (const auto& [peer, part] : early) handle(PartReceived{peer, part});
}

void Member::end_flight() {
  executed_ = flight_->round();
  actions_.push_back(Complete{executed_, static_cast<int>(flight_->members().size()), is_synchronisation(executed_)});
  if (options_.elastic && executed_ == synchronises_at_) {
    lingers_for_ = without(flight_->members(), {rank_});
    for (int peer = 0; peer < roster_.ranks(); ++peer)
      if (peer != rank_ && roster_.lives(peer))
        turn().send(peer, {.kind = Message::Kind::completed, .number = executed_});
  }
  if (options_.elastic) {
    attempts_[executed_] = {flight_->members(), flight_->absent()};
    attempts_.erase(attempts_.begin(), attempts_.lower_bound(executed_ - kRememberedAttempts));
  }
  flight_.reset();
  absent_.erase(absent_.begin(), absent_.upper_bound(executed_));
  std::erase_if(early_, [this](const auto& early) { return early.second.round <= executed_; });
  // Who started round `executed_` knew that everybody had finished all but the last period before it.
  activator_.forget_before(executed_ - options_.period);
  attendance_.forget_before(executed_);
}

// ---- the worker ----

void Member::handle(const Arrived& event) {
  base::check(event.iteration == arrived_ + 1 && !waits_for_round_ && !waits_for_minimum_,
              "a worker that arrives at every round in turn");
  arrived_ = event.iteration;
  if (event.synchronises) synchronises_at_ = arrived_;
  behind_ = executed_ >= arrived_;
  waits_for_round_ = true;
  if (!is_synchronisation(arrived_)) activator_.arrived(turn(), arrived_);
}

bool Member::lingers() const {
  if (arrived_ != synchronises_at_) return false;
  return std::ranges::any_of(lingers_for_, [this](int peer) {
    const auto found = completed_.find(peer);
    return found == completed_.end() || found->second < arrived_;
  });
}

void Member::release_worker() {
  if (waits_for_round_ && executed_ >= arrived_ && !lingers()) {
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

// ---- away and back ----

void Member::handle(const Leaves&) {
  base::check(stay_ == Stay::present && !waits_for_round_ && !waits_for_minimum_, "a worker between two iterations");
  stay_ = Stay::leaving;
  attendance_.leave(turn());
  activator_.on_attendance(turn());
}

void Member::handle(const ComesBack&) {
  base::check((stay_ == Stay::leaving || stay_ == Stay::away || stay_ == Stay::outside) && !wants_back_,
              "a worker that is away");
  wants_back_ = true;
  if (stay_ != Stay::outside) return;
  admission_.be_ready(now_);
  actions_.push_back(WakeAt{admission_.found_at()});
  greet_strangers();
  join_or_found();
}

void Member::handle(const Adopted& event) {
  if (stay_ == Stay::fetching && event.peer == donor_ && !is_forgoing_) ask_to_return();
}

void Member::handle(const Forgone&) {
  is_forgoing_ = false;
  stay_ = Stay::away;
}

// The bound goes on without this worker only now: up to here its models are in averages, and must not grow too old.
void Member::advance_stay() {
  if (stay_ == Stay::leaving && attendance_.all_have_answered()) {
    stay_ = Stay::away;
    attendance_.settle(turn(), newest());
    if (options_.sync == Sync::rolling) minimum_.leave(turn());
  }
  if (stay_ == Stay::away) {
    activator_.forget_before(activator_.newest() - options_.period);
    if (wants_back_ && !flight_ && strangers_.empty() && !attendance_.takes_part(rank_, executed_ + 1))
      fetch_or_return();
  }
  if (stay_ == Stay::returning && attendance_.all_have_answered()) {
    if (!strangers_.empty()) {  // they have to be asked, too
      attendance_.give_up(turn());
      if (options_.sync == Sync::rolling) minimum_.leave(turn());
      stay_ = Stay::away;
    } else if (minimum_.is_counted()) {
      rejoin();
    }
  }
}

void Member::fetch_or_return() {
  const Ranks missing = united(roster_.lost(), attendance_.missing_at(std::numeric_limits<Iteration>::max()));
  for (int distance = 1; distance < roster_.ranks(); ++distance) {
    donor_ = (rank_ + distance) % roster_.ranks();
    if (contains(missing, donor_) || (options_.elastic && !admission_.has_model(donor_))) continue;
    stay_ = Stay::fetching;
    turn().send(donor_, {.kind = Message::Kind::wanted});
    actions_.push_back(Adopt{donor_});
    return;
  }
  // Rather join a half that was left than go on with one's own model, which no other one knows.
  for (const int peer : admission_.met())
    if (options_.elastic && admission_.has_model(peer) && !roster_.lives(peer, admission_.incarnation_of(peer)))
      return expel(peer, admission_.greeting_of(peer).roster);
  // All workers that had the model have gone. Their count of iterations does not belong to this worker's own model.
  if (brings_no_model_) return expel(rank_, roster_);
  ask_to_return();
}

void Member::ask_to_return() {
  stay_ = Stay::returning;
  attendance_.come_back(turn());
  if (options_.sync == Sync::rolling) minimum_.come_back(turn());
}

// As one who has ended all iterations before the first round that it takes part in.
void Member::rejoin() {
  const Iteration first = attendance_.settle(turn(), newest());
  arrived_ = executed_ = merged_ = first - 1;
  attempts_.clear();
  absent_.erase(absent_.begin(), absent_.upper_bound(executed_));
  stay_ = Stay::present;
  wants_back_ = brings_no_model_ = false;
  waits_for_minimum_ = true;
  actions_.push_back(Rejoin{first});
  if (options_.sync == Sync::rolling) minimum_.finished(turn(), first);
  activator_.on_attendance(turn());
  greet_strangers();
  release_worker();
}

bool Member::is_done_until(Iteration newest) const {
  const bool is_settled = attendance_.limit() == std::numeric_limits<Iteration>::max() && stay_ != Stay::leaving;
  return is_settled && !flight_ && (executed_ >= newest || !attendance_.takes_part(rank_, executed_ + 1));
}

// ---- messages ----

void Member::handle(const Received& event) {
  const Message& message = event.message;
  if (!hears(event) || is_too_early(event)) return;
  switch (message.kind) {
    case Message::Kind::arrived: return activator_.on_arrived(turn(), event.peer, message);
    case Message::Kind::activate: return activator_.on_activate(turn(), message);
    case Message::Kind::finished: return minimum_.on_finished(turn(), event.peer, message);
    case Message::Kind::minimum: return minimum_.on_minimum(turn(), message);
    case Message::Kind::leaving:
    case Message::Kind::returning:
      attendance_.on_asked(turn(), event.peer, message, newest());
      return activator_.on_attendance(turn());
    case Message::Kind::newest: return attendance_.on_newest(event.peer, message);
    case Message::Kind::away:
    case Message::Kind::back:
      admission_.on_model(event.peer, message.kind == Message::Kind::back);
      attendance_.on_settled(event.peer, message);
      return activator_.on_attendance(turn());
    case Message::Kind::wanted: return actions_.push_back(Give{event.peer});
    case Message::Kind::count_me: return minimum_.on_count_me(turn(), event.peer, message);
    case Message::Kind::counted: return minimum_.on_counted(turn(), message);
    case Message::Kind::absent:
      if (message.number > executed_)
        leave_out(message.number, message.ranks, event.peer);
      else if (!contains(message.ranks, rank_) && !contains(message.ranks, event.peer) &&
               !has_completed_with(event.peer, message))
        say_absent(event.peer, message.number, {rank_});
      return;
    case Message::Kind::completed: completed_[event.peer] = message.number; return;
    case Message::Kind::asking: return attendance_.on_asking(turn(), event.peer, message);
    case Message::Kind::grown: return attendance_.on_grown(event.peer, message);
    case Message::Kind::greeting: return;
  }
}

// A word about the attempt that is complete here, or about one before it: its sender has all that it needs of this one.
bool Member::has_completed_with(int peer, const Message& message) const {
  const auto found = attempts_.find(message.number);
  return found != attempts_.end() && contains(found->second.members, peer) &&
         is_within(message.ranks, found->second.absent);
}

void Member::handle(const PartReceived& event) {
  const auto& [peer, part] = event;
  if (part.round <= executed_) return say_absent(peer, part.round, {rank_});
  leave_out(part.round, part.absent, peer);
  if (part.absent != absent_in(part.round)) return;  // of an attempt that is void: its sender will hear of that
  if (flight_ && flight_->round() == part.round && !flight_->abandoned())
    flight_->received(actions_, peer, part);
  else
    early_.emplace_back(peer, part);
}

void Member::handle(const PartSent& event) {
  base::check(flight_.has_value(), "a round that lasts as long as its sends");
  flight_->sent(actions_, event.peer, event.part);
}

void Member::handle(const Withdrawn&) {
  base::check(flight_ && flight_->abandoned(), "a round that is void");
  flight_->withdraw();
}

void Member::handle(const Tick&) {
  if (stay_ == Stay::outside) return join_or_found();
  activator_.on_tick(turn());
}

}  // namespace flockstep::protocol
