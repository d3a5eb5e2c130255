// What a round does: who runs it, what it sums, and what the worker is told about it.
#include <fmt/format.h>
#include <fmt/ranges.h>

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

class WholeSum final : public Checker {
 public:
  explicit WholeSum(const Truth& truth)
      : Checker(truth, property::kWholeSum),
        attempts_(static_cast<std::size_t>(truth.scenario.iterations)),
        current_(truth.workers.size()) {}

  void after(int rank, const Action& action) override {
    if (const auto* freeze = std::get_if<Freeze>(&action)) {
      began(rank, *freeze);
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      ended(rank, *complete);
    }
  }

 private:
  struct Attempt {
    RankSet members = 0, took_part = 0;
    std::uint64_t origin = 0;
  };

  Attempt& attempt(Iteration round, RankSet members) {
    auto& attempts = attempts_.at(place_of(round));
    for (Attempt& known : attempts)
      if (known.members == members) return known;
    return attempts.emplace_back(Attempt{members});
  }

  void began(int rank, const Freeze& freeze) {
    const Contribution& taken = truth_.contributions.back();
    if (freeze.version != taken.version)
      fail(rank, freeze.round, fmt::format("it says {} and takes {}", freeze.version, taken.version));
    for (const int other : truth_.group_of(rank, freeze.round))
      if (!contains(taken.members, other) && truth_.lives(other) && truth_.worker(other).executed() < freeze.round)
        fail(rank, freeze.round, fmt::format("worker {} is left out, who lives and has not run the round", other));
    if ((taken.members & ~set_of(truth_.group_of(rank, freeze.round))) != 0)
      fail(rank, freeze.round, fmt::format("not all of {} are in the group", fmt::join(freeze.members, ", ")));
    Attempt& its = attempt(freeze.round, taken.members);
    its.took_part |= bit(rank);
    its.origin += mark_of(truth_.contributions.size() - 1);
    current_[static_cast<std::size_t>(rank)] = freeze.members;
  }

  void ended(int rank, const Complete& complete) {
    const Ranks& members = current_[static_cast<std::size_t>(rank)];
    const Attempt& its = attempt(complete.round, set_of(members));
    if (complete.members != static_cast<int>(members.size()))
      fail(rank, complete.round, fmt::format("{} members are said to be {}", members.size(), complete.members));
    for (int chunk = 0; chunk < truth_.options().chunks; ++chunk)
      for (const int owner : members) {
        const Piece& piece = truth_.worker(rank).piece(chunk, owner);
        if (piece.once == its.members && piece.more == 0 && piece.origin == its.origin && its.took_part == its.members)
          continue;
        fail(rank, complete.round,
             fmt::format("worker {}'s part of chunk {} holds {}, of members {}{}{}", owner, chunk, list(piece.once),
                         list(its.members), piece.more ? ", more than once " + list(piece.more) : "",
                         piece.once == its.members && piece.more == 0 ? ", with other models" : ""));
      }
  }

  static std::string list(RankSet set) {
    Ranks ranks;
    for (int rank = 0; rank < kMaxWorkers; ++rank)
      if (contains(set, rank)) ranks.push_back(rank);
    return fmt::format("{{{}}}", fmt::join(ranks, ","));
  }

  std::vector<std::vector<Attempt>> attempts_;  // per round
  std::vector<Ranks> current_;                  // members of the newest attempt, per worker
};

// Nothing under way is overwritten, and the places of a chunk are used again only `window` chunks later: first for what
// is received to be summed, then for averages.
class Untouched final : public Checker {
 public:
  explicit Untouched(const Truth& truth) : Checker(truth, property::kUntouched), rounds_(truth.workers.size()) {}

  bool watches_parts() const override { return true; }

  void before(int rank, const Event& event) override {
    const auto* sent = std::get_if<PartSent>(&event);
    if (!sent) return;
    auto& parts = rounds_[static_cast<std::size_t>(rank)].under_way;
    const auto found = std::ranges::find_if(
        parts, [&](const SendPart& part) { return part.peer == sent->peer && part.part == sent->part; });
    if (found != parts.end()) parts.erase(found);
  }

  void after(int rank, const Action& action) override {
    Round& round = rounds_[static_cast<std::size_t>(rank)];
    if (const auto* part = std::get_if<SendPart>(&action)) {
      round.under_way.push_back(*part);
    } else if (const auto* expected = std::get_if<ExpectPart>(&action)) {
      expect_room(rank, round, expected->part);
    } else if (const auto* freeze = std::get_if<Freeze>(&action)) {
      if (!round.under_way.empty()) fail(rank, freeze->round, describe(round.under_way.front(), "the round begins"));
      round.summed = 0;
      round.placed.fill(1);
      round.members = static_cast<int>(freeze->members.size());
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      if (!round.under_way.empty()) fail(rank, complete->round, describe(round.under_way.front(), "the round ends"));
    } else if (const auto* place = std::get_if<Place>(&action)) {
      if (const auto* part = under_way(round, Phase::reduce, place->chunk, place->peer))
        fail(rank, part->part.round, describe(*part, "it is overwritten"));
      ++round.placed[static_cast<std::size_t>(place->chunk)];
    } else if (const auto* sum = std::get_if<Sum>(&action)) {
      if (const auto* part = under_way(round, Phase::gather, sum->chunk))
        fail(rank, part->part.round, describe(*part, "it is summed again"));
      round.summed |= bit(sum->chunk);
    }
  }

 private:
  struct Round {
    std::vector<SendPart> under_way;
    RankSet summed = 0;                    // chunks
    std::array<int, kMaxChunks> placed{};  // parts of each chunk, one's own included
    int members = 0;
  };

  static const SendPart* under_way(const Round& round, Phase phase, int chunk, int peer = -1) {
    for (const SendPart& its : round.under_way)
      if (its.part.phase == phase && its.part.chunk == chunk && (peer < 0 || its.peer == peer)) return &its;
    return nullptr;
  }

  void expect_room(int rank, const Round& round, const Part& part) const {
    if (part.phase == Phase::gather && !contains(round.summed, part.chunk))
      fail(rank, part.round,
           fmt::format("averages of chunk {} are received where contributions to it lie", part.chunk));
    const int before = part.chunk - truth_.options().window;
    if (part.phase == Phase::gather || before < 0) return;
    const auto* unsent = under_way(round, Phase::gather, before);
    if (!unsent) unsent = under_way(round, Phase::reduce, before);
    if (unsent) fail(rank, part.round, describe(*unsent, fmt::format("chunk {} takes its place", part.chunk)));
    if (round.placed[static_cast<std::size_t>(before)] < round.members)
      fail(rank, part.round,
           fmt::format("chunk {} takes the place of chunk {}, which is not whole", part.chunk, before));
  }

  static std::string describe(const SendPart& part, std::string_view what) {
    return fmt::format("{} while the {} of chunk {} is on its way to worker {}", what,
                       part.part.phase == Phase::reduce ? "contribution" : "average", part.part.chunk, part.peer);
  }

  std::vector<Round> rounds_;  // under way, per worker
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

// Between workers that live, in rounds whose group lost nobody.
class NothingLeft final : public Checker {
 public:
  explicit NothingLeft(const Truth& truth) : Checker(truth, property::kNothingLeft) {}

  void ended(const Network& network) override {
    for (const Network::Post& post : network.posts())
      if ((!post.expected || !post.handed) && !lost_somebody(post.to, post.part.round))
        fail(post.to, post.part.round,
             fmt::format("a part of chunk {} from worker {} was never {}", post.part.chunk, post.from,
                         post.expected ? "received" : "expected"));
    for (const Network::Expectation& expectation : network.expectations())
      if (!lost_somebody(expectation.at, expectation.part.round))
        fail(expectation.at, expectation.part.round,
             fmt::format("a part of chunk {} from worker {} is still expected", expectation.part.chunk,
                         expectation.peer));
    for (int rank = 0; rank < truth_.options().workers; ++rank)
      if (truth_.lives(rank) && truth_.worker(rank).staged() > 0)
        fail(rank, truth_.worker(rank).executed() + 1, "it has received parts of rounds that never ran");
  }

 private:
  bool lost_somebody(int rank, Iteration round) const {
    return (set_of(truth_.group_of(rank, round)) & truth_.crashed) != 0;
  }
};

}  // namespace

void add_round_checkers(Checkers& checkers, const Truth& truth) {
  checkers.push_back(std::make_unique<OnceInOrder>(truth));
  checkers.push_back(std::make_unique<WholeSum>(truth));
  checkers.push_back(std::make_unique<Untouched>(truth));
  checkers.push_back(std::make_unique<HonestOutcome>(truth));
  checkers.push_back(std::make_unique<NothingLeft>(truth));
}

}  // namespace flockstep::simulation
