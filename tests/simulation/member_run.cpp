#include "simulation/member_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/member.h"

namespace flockstep::simulation {
namespace {

using namespace protocol;

// Far above what any scenario takes: more is a loop that does not end.
constexpr std::int64_t kMostEvents = 300'000;

class Honest final : public Participant {
 public:
  Honest(const Options& options, int rank) : member_(options, rank) {}
  std::vector<Action> step(base::Time now, const Event& event) override { return member_.step(now, event); }

 private:
  Member member_;
};

bool is_about_parts(const Event& event) {
  return std::holds_alternative<PartReceived>(event) || std::holds_alternative<PartSent>(event);
}

bool is_about_parts(const Action& action) {
  return std::holds_alternative<SendPart>(action) || std::holds_alternative<ExpectPart>(action) ||
         std::holds_alternative<AddRow>(action) || std::holds_alternative<Sum>(action) ||
         std::holds_alternative<Place>(action);
}

}  // namespace

std::unique_ptr<Participant> make_honest(const Options& options, int rank) {
  return std::make_unique<Honest>(options, rank);
}

MemberRun::MemberRun(const Scenario& scenario, const MakeParticipant& make)
    : truth_(scenario),
      network_(truth_, queue_),
      random_(scenario.seed, base::Purpose::test, 2),
      done_(truth_.workers.size()),
      sending_(truth_.workers.size()),
      withdraws_(truth_.workers.size()),
      stopped_until_(truth_.workers.size()),
      timers_(truth_.workers.size()),
      faults_(scenario.faults),
      absences_(scenario.absences) {
  for (int rank = 0; rank < scenario.options.workers; ++rank) {
    members_.push_back(make(scenario.options, rank));
    begin_iteration(rank, scenario.options.first);
  }
}

void MemberRun::run() {
  while (!queue_.empty()) {
    if (queue_.due() == 0 && truth_.all_finished()) break;  // only timers are left, for nothing
    if (++events_ > kMostEvents)
      throw Violation(property::kEnds, -1, -1, fmt::format("{} events and no end", kMostEvents));
    truth_.now = std::max(truth_.now, queue_.next_time());
    happen(queue_.take());
  }
  for (int rank = 0; rank < truth_.options().workers; ++rank) {
    const StandIn& worker = truth_.worker(rank);
    if (truth_.lives(rank) && !truth_.is_done(rank))
      throw Violation(
          property::kEnds, rank, worker.executed() + 1,
          fmt::format("nothing is left to happen, and the worker has arrived at {}, merged {} and run rounds to {}",
                      worker.version(), worker.merged(), worker.executed()));
  }
  for (const auto& checker : checkers_) checker->ended(network_);
}

Counts MemberRun::counts() const {
  return {{"events", events_},
          {"rounds", rounds_},
          {"in a grid", grids_},
          {"merges", merges_},
          {"fresh", fresh_},
          {"returns", returns_},
          {"control messages", network_.messages()},
          {"parts", network_.posts().size()},
          {"stops", truth_.stops},
          {"with a crash", truth_.crashed != 0},
          {"with a stop", truth_.stops > 0},
          {"with a worker away", truth_.ever_left != 0}};
}

// Machines receive and send while the worker and its agent are stopped; only what the agent hears of waits.
void MemberRun::happen(Happening happening) {
  const int rank = happening.rank;
  if (happening.withdrawn || !truth_.lives(rank)) return;
  const auto* adopted = std::get_if<Adopted>(&happening.event);
  if (adopted && !truth_.lives(adopted->peer)) return;  // the rest of its model never comes
  if (happening.kind == Happening::Kind::part_arrives) return network_.arrives(happening.post);
  if (happening.post >= 0) network_.read(happening.post);
  if (is_late_timer(happening)) return;
  const double until = stopped_until_[static_cast<std::size_t>(rank)];
  if (until > truth_.now) return queue_.put(until, std::move(happening));
  hand(rank, happening);
}

// A timer that another one has replaced may still go off.
bool MemberRun::is_late_timer(const Happening& happening) {
  return std::holds_alternative<Tick>(happening.event) &&
         happening.timer != timers_[static_cast<std::size_t>(happening.rank)] && random_.below(4) > 0;
}

template <typename Happened, typename Tell>
bool MemberRun::tell_checkers(const Happened& happened, const Tell& tell) {
  const bool is_about_parts = simulation::is_about_parts(happened);
  for (const auto& checker : checkers_)
    if (!is_about_parts || checker->watches_parts()) tell(*checker);
  return !is_about_parts;
}

void MemberRun::hand(int rank, const Happening& happening) {
  const Event& event = happening.event;
  StandIn& worker = truth_.worker(rank);
  if (const auto* arrived = std::get_if<Arrived>(&event)) {
    worker.arrive(arrived->iteration);
    for (int chunk = 0; chunk < truth_.options().chunks; ++chunk)
      random_.uniform();  // as ever: seeds stay what they are
  }
  if (const auto* part = std::get_if<PartReceived>(&event))
    worker.receive(part->peer, part->part, network_.pieces(happening.post));
  if (std::holds_alternative<PartSent>(event)) {
    --sending_[static_cast<std::size_t>(rank)];
    end_withdrawal(rank);
  }
  if (std::holds_alternative<Leaves>(event)) {
    truth_.away |= bit(rank);
    truth_.ever_left |= bit(rank);
  }
  bool concerns_all = tell_checkers(event, [&](Checker& checker) { checker.before(rank, event); });
  const auto actions = members_[static_cast<std::size_t>(rank)]->step(base::Time(base::Duration(truth_.now)), event);
  for (const Action& action : actions) {
    if (crash_is_due(rank)) return crash(rank);
    carry_out(rank, action);
    ++done_[static_cast<std::size_t>(rank)];
    concerns_all |= tell_checkers(action, [&](Checker& checker) { checker.after(rank, action); });
  }
  if (crash_is_due(rank)) return crash(rank);
  if (concerns_all)
    for (const auto& checker : checkers_) checker->settled(rank);
  stop_if_due(rank);
}

void MemberRun::carry_out(int rank, const Action& action) {
  StandIn& worker = truth_.worker(rank);
  if (const auto* send = std::get_if<Send>(&action)) {
    network_.send(rank, send->peer, send->message);
    truth_.note(rank, send->message);
    if (send->message.kind == Message::Kind::absent) {
      worker.leave_out(send->message.number, send->message.ranks);
      network_.void_attempts(rank);
    }
  } else if (const auto* part = std::get_if<SendPart>(&action)) {
    ++sending_[static_cast<std::size_t>(rank)];
    network_.post(rank, part->peer, part->part);
  } else if (const auto* expected = std::get_if<ExpectPart>(&action)) {
    network_.expect(rank, expected->peer, expected->part);
  } else if (const auto* freeze = std::get_if<Freeze>(&action)) {
    truth_.contributions.push_back(
        worker.freeze(*freeze, truth_.group_of(rank, freeze->round), truth_.contributions.size()));
    network_.void_attempts(rank);
  } else if (std::holds_alternative<Withdraw>(action)) {
    withdraws_[static_cast<std::size_t>(rank)] = true;
    end_withdrawal(rank);
  } else if (const auto* row = std::get_if<AddRow>(&action)) {
    worker.add_row(row->chunk);
  } else if (const auto* sum = std::get_if<Sum>(&action)) {
    worker.sum(sum->chunk);
  } else if (const auto* place = std::get_if<Place>(&action)) {
    worker.place(place->peer, place->chunk);
  } else if (const auto* complete = std::get_if<Complete>(&action)) {
    worker.complete(*complete);
    network_.void_attempts(rank);
    ++rounds_;
    grids_ += Grid(complete->members, truth_.options().direct).rows() > 1;
  } else if (const auto* merge = std::get_if<Merge>(&action)) {
    worker.merge(*merge);
    ++merges_;
    fresh_ += merge->outcome == Outcome::fresh || merge->outcome == Outcome::synchronised;
  } else if (const auto* proceed = std::get_if<Proceed>(&action)) {
    worker.proceed(*proceed);
    go_on(rank, proceed->iteration);
  } else if (const auto* give = std::get_if<Give>(&action)) {
    network_.give(rank, give->peer);
  } else if (const auto* rejoin = std::get_if<Rejoin>(&action)) {
    worker.rejoin(*rejoin);
    truth_.away &= ~bit(rank);
    truth_.note(rank, {.kind = Message::Kind::back, .number = rejoin->iteration});  // there may be nobody to tell
    ++returns_;
  } else if (const auto* wake = std::get_if<WakeAt>(&action)) {
    const double time = std::max(truth_.now, wake->time.time_since_epoch().count());
    queue_.put(time + truth_.scenario.timers.draw(random_),
               {.rank = rank, .timer = ++timers_[static_cast<std::size_t>(rank)]});
  }
}

void MemberRun::end_withdrawal(int rank) {
  const auto place = static_cast<std::size_t>(rank);
  if (!withdraws_[place] || sending_[place] > 0) return;
  withdraws_[place] = false;
  queue_.put(truth_.now, {.rank = rank, .event = Withdrawn{}});
}

void MemberRun::go_on(int rank, Iteration iteration) {
  if (iteration > truth_.scenario.last()) return;
  const auto due = std::ranges::find_if(
      absences_, [&](const Absence& absence) { return absence.rank == rank && iteration > absence.after; });
  if (due == absences_.end()) return begin_iteration(rank, iteration);
  queue_.put(truth_.now, {.rank = rank, .event = Leaves{}});
  if (due->is_for_good)
    truth_.left_for_good |= bit(rank);
  else
    queue_.put(truth_.now + due->seconds, {.rank = rank, .event = ComesBack{}});
  absences_.erase(due);
}

void MemberRun::begin_iteration(int rank, Iteration iteration) {
  const Scenario& scenario = truth_.scenario;
  double seconds = scenario.step_seconds[static_cast<std::size_t>(rank)];
  seconds *= 1 + scenario.spread * (2 * random_.uniform() - 1);
  if (random_.uniform() < scenario.hiccups) seconds *= scenario.hiccup;
  queue_.put(truth_.now + seconds, {.rank = rank, .event = Arrived{iteration}});
}

bool MemberRun::crash_is_due(int rank) const {
  return std::ranges::any_of(faults_, [&](const Fault& fault) {
    return fault.kind == Fault::Kind::crash && fault.rank == rank &&
           done_[static_cast<std::size_t>(rank)] >= fault.after;
  });
}

// Everybody who lives hears of it, sooner or later.
void MemberRun::crash(int rank) {
  truth_.crashed |= bit(rank);
  std::erase_if(faults_, [&](const Fault& fault) { return fault.rank == rank; });
  network_.crash(rank);
  for (int other = 0; other < truth_.options().workers; ++other)
    if (truth_.lives(other))
      queue_.put(truth_.now + truth_.scenario.loss.draw(random_), {.rank = other, .event = PeerLost{rank}});
  for (const auto& checker : checkers_) checker->crashed(rank);
}

void MemberRun::stop_if_due(int rank) {
  const auto due = std::ranges::find_if(faults_, [&](const Fault& fault) {
    return fault.kind == Fault::Kind::stop && fault.rank == rank &&
           done_[static_cast<std::size_t>(rank)] >= fault.after;
  });
  if (due == faults_.end()) return;
  stopped_until_[static_cast<std::size_t>(rank)] = truth_.now + due->seconds;
  ++truth_.stops;
  faults_.erase(due);
}

}  // namespace flockstep::simulation
