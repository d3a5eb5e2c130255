// What becomes of the parts of a round: what they are summed to, where they lie, whether they all arrive.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "protocol/ranks.h"
#include "simulation/checker.h"

namespace flockstep::simulation {
namespace {

using namespace protocol;

Grid grid_of(const Truth& truth, const Ranks& members) {
  return {static_cast<int>(members.size()), truth.options().direct};
}

class WholeSum final : public Checker {
 public:
  explicit WholeSum(const Truth& truth)
      : Checker(truth, property::kWholeSum),
        attempts_(static_cast<std::size_t>(truth.scenario.iterations)),
        current_(truth.workers.size()) {}

  bool watches_parts() const override { return true; }

  void after(int rank, const Action& action) override {
    if (const auto* freeze = std::get_if<Freeze>(&action)) {
      began(rank, *freeze);
    } else if (const auto* row = std::get_if<AddRow>(&action)) {
      expect_row(rank, row->chunk);
    } else if (const auto* sum = std::get_if<Sum>(&action)) {
      expect_whole(rank, sum->chunk, rank);
    } else if (const auto* place = std::get_if<Place>(&action)) {
      for (const int owner : truth_.worker(rank).averaged_by(place->peer)) expect_whole(rank, place->chunk, owner);
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      completed(rank, *complete);
    }
  }

 private:
  struct Attempt {
    RankSet members = 0, took_part = 0;
    std::uint64_t origin = 0;
  };
  struct Current {
    Iteration round = 0;
    Ranks members;
    std::array<RankSet, kMaxChunks> whole{};  // whose parts, of each chunk
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
      if (!contains(taken.members, other) && truth_.lives(other) && truth_.worker(other).executed() < freeze.round &&
          truth_.takes_part(other, freeze.round))
        fail(rank, freeze.round, fmt::format("worker {} is left out, who lives and has not run the round", other));
    for (const int member : freeze.members)
      if (!truth_.takes_part(member, freeze.round))
        fail(rank, freeze.round, fmt::format("worker {} is a member, who is away", member));
    if ((taken.members & ~set_of(truth_.group_of(rank, freeze.round))) != 0)
      fail(rank, freeze.round, fmt::format("not all of {} are in the group", fmt::join(freeze.members, ", ")));
    Attempt& its = attempt(freeze.round, taken.members);
    its.took_part |= bit(rank);
    its.origin += mark_of(truth_.contributions.size() - 1);
    current_[static_cast<std::size_t>(rank)] = {freeze.round, freeze.members, {}};
  }

  // The sums hold all of the row, and nobody else.
  void expect_row(int rank, int chunk) {
    const Current& current = current_[static_cast<std::size_t>(rank)];
    const Grid grid = grid_of(truth_, current.members);
    const int row = grid.row_of(index_of(current.members, rank));
    const auto begin = current.members.begin() + grid.row_begin(row);
    const RankSet members = set_of({begin, begin + grid.row_size(row)});
    for (const int owner : truth_.worker(rank).column_of(rank))
      if (const Piece& sum = truth_.worker(rank).row_sum(chunk, owner); sum.once != members || sum.more != 0)
        fail(rank, current.round,
             fmt::format("the row's sum of worker {}'s piece of chunk {} holds {}, of {}", owner, chunk, list(sum.once),
                         list(members)));
  }

  // The part of this owner is the sum, now and not before.
  void expect_whole(int rank, int chunk, int owner) {
    Current& current = current_[static_cast<std::size_t>(rank)];
    RankSet& whole = current.whole[static_cast<std::size_t>(chunk)];
    if (contains(whole, owner))
      fail(rank, current.round, fmt::format("worker {}'s part of chunk {} is put there twice", owner, chunk));
    whole |= bit(owner);
    const Attempt& its = attempt(current.round, set_of(current.members));
    const Piece& piece = truth_.worker(rank).piece(chunk, owner);
    if (piece.once == its.members && piece.more == 0 && piece.origin == its.origin && its.took_part == its.members)
      return;
    fail(rank, current.round,
         fmt::format("worker {}'s part of chunk {} holds {}, of members {}{}{}", owner, chunk, list(piece.once),
                     list(its.members), piece.more ? ", more than once " + list(piece.more) : "",
                     piece.once == its.members && piece.more == 0 ? ", with other models" : ""));
  }

  void completed(int rank, const Complete& complete) {
    const Current& current = current_[static_cast<std::size_t>(rank)];
    const RankSet members = set_of(current.members);
    if (complete.members != size_of(members))
      fail(rank, complete.round, fmt::format("{} members are said to be {}", size_of(members), complete.members));
    RankSet owners = 0;
    const Grid grid = grid_of(truth_, current.members);
    for (int row = 0; row < grid.rows(); ++row)
      for (int column = 0; column < grid.columns(); ++column)
        owners |= bit(current.members[static_cast<std::size_t>(grid.holder(row, column))]);
    for (int chunk = 0; chunk < truth_.options().chunks; ++chunk)
      if (const RankSet missing = owners & ~current.whole[static_cast<std::size_t>(chunk)])
        fail(rank, complete.round, fmt::format("the parts of {} of chunk {} are missing", list(missing), chunk));
  }

  static std::string list(RankSet set) {
    Ranks ranks;
    for (int rank = 0; rank < kMaxWorkers; ++rank)
      if (contains(set, rank)) ranks.push_back(rank);
    return fmt::format("{{{}}}", fmt::join(ranks, ","));
  }

  std::vector<std::vector<Attempt>> attempts_;  // per round
  std::vector<Current> current_;                // the newest attempt, per worker
};

// Nothing under way is overwritten, and the places of a chunk are used again only `window` chunks later: first for what
// is received to be summed, then for averages of the row.
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
      begin(rank, round, *freeze);
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      if (!round.under_way.empty()) fail(rank, complete->round, describe(round.under_way.front(), "the round ends"));
    } else if (const auto* place = std::get_if<Place>(&action)) {
      if (const auto* part = under_way(round, Phase::reduce, place->chunk, place->peer))
        fail(rank, part->part.round, describe(*part, "it is overwritten"));
      if (!contains(round.added, place->chunk))
        fail(rank, round.number, fmt::format("an average of chunk {} lies where contributions to it do", place->chunk));
      round.placed[static_cast<std::size_t>(place->chunk)] +=
          static_cast<int>(truth_.worker(rank).averaged_by(place->peer).size());
    } else if (const auto* row = std::get_if<AddRow>(&action)) {
      round.added |= bit(row->chunk);
    } else if (const auto* sum = std::get_if<Sum>(&action)) {
      if (const auto* part = under_way(round, Phase::gather, sum->chunk))
        fail(rank, part->part.round, describe(*part, "it is summed again"));
      round.added |= bit(sum->chunk);
    }
  }

 private:
  struct Round {
    Iteration number = 0;
    std::vector<SendPart> under_way;
    RankSet added = 0;                     // chunks whose contributions are not needed any more
    std::array<int, kMaxChunks> placed{};  // pieces of each chunk, one's own included
    int pieces = 0;                        // that a chunk has
  };

  // Who holds no column is sent no contributions.
  void begin(int rank, Round& round, const Freeze& freeze) const {
    const Grid grid = grid_of(truth_, freeze.members);
    const bool holds = grid.holds_column(index_of(freeze.members, rank));
    round.number = freeze.round;
    round.added = holds ? 0 : ~RankSet{0};
    round.placed.fill(holds ? 1 : 0);
    round.pieces = grid.rows() * grid.columns();
  }

  static const SendPart* under_way(const Round& round, Phase phase, int chunk, int peer = -1) {
    for (const SendPart& its : round.under_way)
      if (its.part.phase == phase && its.part.chunk == chunk && (peer < 0 || its.peer == peer)) return &its;
    return nullptr;
  }

  void expect_room(int rank, const Round& round, const Part& part) const {
    if (part.phase == Phase::gather && !contains(round.added, part.chunk))
      fail(rank, part.round,
           fmt::format("averages of chunk {} are received where contributions to it lie", part.chunk));
    const int before = part.chunk - truth_.options().window;
    if (part.phase == Phase::gather || before < 0) return;
    const auto* unsent = under_way(round, Phase::gather, before);
    if (!unsent) unsent = under_way(round, Phase::reduce, before);
    if (unsent) fail(rank, part.round, describe(*unsent, fmt::format("chunk {} takes its place", part.chunk)));
    if (round.placed[static_cast<std::size_t>(before)] < round.pieces)
      fail(rank, part.round,
           fmt::format("chunk {} takes the place of chunk {}, which is not whole", part.chunk, before));
  }

  static std::string describe(const SendPart& part, std::string_view what) {
    return fmt::format("{} while the {} of chunk {} is on its way to worker {}", what,
                       part.part.phase == Phase::reduce ? "contribution" : "average", part.part.chunk, part.peer);
  }

  std::vector<Round> rounds_;  // under way, per worker
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
    // One who was lost may have begun a round with one who, as nobody else had begun it, takes no part in it.
    const RankSet excused = truth_.crashed != 0 ? truth_.ever_left : 0;
    for (int rank = 0; rank < truth_.options().workers; ++rank)
      if (truth_.lives(rank) && !contains(excused, rank) && truth_.worker(rank).staged() > 0)
        fail(rank, truth_.worker(rank).executed() + 1, "it has received parts of rounds that never ran");
  }

 private:
  bool lost_somebody(int rank, Iteration round) const {
    return (set_of(truth_.group_of(rank, round)) & truth_.crashed) != 0;
  }
};

}  // namespace

void add_part_checkers(Checkers& checkers, const Truth& truth) {
  checkers.push_back(std::make_unique<WholeSum>(truth));
  checkers.push_back(std::make_unique<Untouched>(truth));
  checkers.push_back(std::make_unique<NothingLeft>(truth));
}

}  // namespace flockstep::simulation
