// Which rounds run, what the worker is told about them, and which model one goes on with who comes back.
#include <fmt/format.h>

#include <algorithm>

#include "simulation/checker.h"

namespace flockstep::simulation {
namespace {

using namespace protocol;

class OnceInOrder final : public Checker {
 public:
  explicit OnceInOrder(const Truth& truth)
      : Checker(truth, property::kOnceInOrder), rounds_(truth.workers.size(), {truth.options().first - 1, false, 0}) {}

  void after(int rank, const Action& action) override {
    Rounds& rounds = rounds_[static_cast<std::size_t>(rank)];
    if (const auto* freeze = std::get_if<Freeze>(&action)) {
      const Iteration round = freeze->round;
      const RankSet members = set_of(freeze->members);
      if (round != rounds.executed + 1) fail(rank, round, fmt::format("it begins after round {}", rounds.executed));
      if (round > truth_.scenario.last()) fail(rank, round, "there is no such iteration");
      if (rounds.under_way && (members == rounds.members || (members & ~rounds.members) != 0))
        fail(rank, round, "it begins again, and not with fewer members");
      if (!std::ranges::is_sorted(freeze->members) || !contains(members, rank))
        fail(rank, round, "its members are out of order, or without itself");
      if (freeze->is_synchronisation != truth_.is_synchronisation(round))
        fail(rank, round, "it is not said rightly whether it is a synchronisation");
      rounds.under_way = true;
      rounds.members = members;
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      if (!rounds.under_way || complete->round != rounds.executed + 1)
        fail(rank, complete->round, fmt::format("it ends after round {} without having begun", rounds.executed));
      if (complete->is_synchronisation != truth_.is_synchronisation(complete->round))
        fail(rank, complete->round, "it is not said rightly whether it is a synchronisation");
      rounds.under_way = false;
      rounds.executed = complete->round;
    } else if (const auto* rejoin = std::get_if<Rejoin>(&action)) {
      if (rounds.under_way || rejoin->iteration <= rounds.executed)
        fail(rank, rejoin->iteration, fmt::format("the worker comes back after round {}", rounds.executed));
      rounds.executed = rejoin->iteration - 1;
    } else if (std::holds_alternative<Adopt>(action) && rounds.under_way) {
      fail(rank, rounds.executed + 1, "another model takes its place while it is under way");
    }
  }

 private:
  struct Rounds {
    Iteration executed;
    bool under_way;
    RankSet members;
  };
  std::vector<Rounds> rounds_;
};

class HonestOutcome final : public Checker {
 public:
  explicit HonestOutcome(const Truth& truth)
      : Checker(truth, property::kHonestOutcome), workers_(truth.workers.size()) {
    for (State& state : workers_) state.merged_round = state.newest = truth.options().first - 1;
  }

  void before(int rank, const Event& event) override {
    if (!std::holds_alternative<Arrived>(event)) return;
    State& state = workers_[static_cast<std::size_t>(rank)];
    state.waits = true;
    state.was_behind = state.newest >= truth_.worker(rank).version();
  }

  void after(int rank, const Action& action) override {
    State& state = workers_[static_cast<std::size_t>(rank)];
    if (std::holds_alternative<Freeze>(action)) {
      state.version = truth_.contributions.back().version;
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      state.newest = complete->round;
      state.newest_version = state.version;
    } else if (const auto* merge = std::get_if<Merge>(&action)) {
      check(rank, state, *merge);
      state.waits = false;
      state.merged_round = merge->round;
    } else if (const auto* rejoin = std::get_if<Rejoin>(&action)) {
      state.merged_round = state.newest = rejoin->iteration - 1;
    }
  }

  void settled(int rank) override {
    const State& state = workers_[static_cast<std::size_t>(rank)];
    const Iteration arrived = truth_.worker(rank).version();
    if (state.waits && state.newest >= arrived) fail(rank, arrived, "the round has run, and the worker is not told");
  }

 private:
  struct State {
    bool waits = false, was_behind = false;
    Iteration version = 0;  // taken by the newest attempt
    Iteration newest = 0, newest_version = 0;
    Iteration merged_round = 0;
  };

  void check(int rank, const State& state, const Merge& merge) const {
    const Iteration iteration = truth_.worker(rank).version();
    if (!state.waits || merge.iteration != iteration)
      fail(rank, merge.round, fmt::format("iteration {} is merged, which nobody waits for", merge.iteration));
    if (merge.round != state.newest) fail(rank, merge.round, fmt::format("the newest one is {}", state.newest));
    Outcome right = state.newest_version == iteration ? Outcome::fresh : Outcome::stale_in_flight;
    if (state.was_behind) right = state.newest > state.merged_round ? Outcome::stale_behind : Outcome::alone;
    if (truth_.is_synchronisation(iteration)) right = Outcome::synchronised;
    if (merge.outcome != right)
      fail(rank, merge.round, fmt::format("it says {}, which is {}", to_string(merge.outcome), to_string(right)));
    if (!state.was_behind && merge.round != iteration)
      fail(rank, merge.round, fmt::format("the worker waited for round {}", iteration));
  }

  std::vector<State> workers_;
};

// Unless nobody is there. Whoever comes back may not have heard of others who have just done so.
class CurrentModel final : public Checker {
 public:
  explicit CurrentModel(const Truth& truth) : Checker(truth, property::kCurrentModel), returns_(truth.workers.size()) {}

  void before(int rank, const Event& event) override {
    Return& its = returns_[static_cast<std::size_t>(rank)];
    if (std::holds_alternative<ComesBack>(event)) {
      its = {.there = ~RankSet{0} >> (64 - truth_.options().workers) & ~(truth_.ever_left | truth_.crashed)};
    } else if (const auto* adopted = std::get_if<Adopted>(&event)) {
      its.adopted = true;
      if (contains(its.were_away, adopted->peer))
        fail(rank, truth_.worker(rank).executed(), fmt::format("worker {}, who is away, gave it", adopted->peer));
    } else if (std::holds_alternative<Leaves>(event)) {
      for (Return& other : returns_) other.there &= ~bit(rank);
    }
  }
  void after(int rank, const Action& action) override {
    Return& its = returns_[static_cast<std::size_t>(rank)];
    if (const auto* rejoin = std::get_if<Rejoin>(&action)) {
      if (its.there != 0 && !its.adopted)
        fail(rank, rejoin->iteration, "it goes on with its own, and others were there all the time");
    } else if (const auto* adopt = std::get_if<Adopt>(&action)) {
      its.were_away = 0;
      if (contains(truth_.away, adopt->peer) && !contains(just_left(), adopt->peer)) its.were_away = bit(adopt->peer);
    }
  }
  void crashed(int rank) override {
    for (Return& other : returns_) other.there &= ~bit(rank);
  }

 private:
  struct Return {
    RankSet there = 0;  // all the time since it wanted to come back, without ever having left
    RankSet were_away = 0;
    bool adopted = false;
  };

  // Word of it may be under way, or wait for an agent that has stopped.
  RankSet just_left() const {
    if (truth_.stops > 0) return truth_.away;
    return truth_.now <= truth_.last_change + truth_.scenario.control.longest ? truth_.away : 0;
  }

  std::vector<Return> returns_;
};

}  // namespace

void add_round_checkers(Checkers& checkers, const Truth& truth) {
  checkers.push_back(std::make_unique<OnceInOrder>(truth));
  checkers.push_back(std::make_unique<HonestOutcome>(truth));
  checkers.push_back(std::make_unique<CurrentModel>(truth));
}

}  // namespace flockstep::simulation
