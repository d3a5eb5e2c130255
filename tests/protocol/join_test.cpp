// What the schedule explorer found about workers that come and go, in the fewest steps that show it.
#include <gtest/gtest.h>

#include <algorithm>

#include "actions.h"

namespace flockstep::protocol {
namespace {

using Kind = Message::Kind;

std::vector<Message> said(const std::vector<Action>& actions, int peer, Kind kind) {
  std::vector<Message> found;
  for (const Send& send : only<Send>(actions))
    if (send.peer == peer && send.message.kind == kind) found.push_back(send.message);
  return found;
}

constexpr Iteration kFlock = (Iteration{1} << 16) | 1;  // that worker 0 has begun

const Options kPair{.workers = 2, .group_size = 2, .elastic = true};
const Options kThree{.workers = 3, .group_size = 3, .elastic = true};

Received greeting(int peer, Standing standing, const Versions& roster, const Options& options,
                  Iteration flock = kFlock) {
  Message message =
      Greeting{standing, 0, flock, options.workers, options.group_size, Roster(roster), {0, -1, options.workers}}
          .message();
  message.roster = roster;
  return {peer, message};
}

Received word(int peer, Message message, const Versions& roster) {
  message.roster = roster;
  return {peer, std::move(message)};
}

// A worker that wants to join, and has met some of the others.
Member joiner(const Options& options, int rank, const Ranks& met = {0}, Incarnation incarnation = 1) {
  Member member(options, rank, incarnation);
  member.step(at(0), ComesBack{});
  for (const int peer : met) member.step(at(0), Met{peer, 1});
  return member;
}

// Worker 0, which begins the flock and takes part in it.
Member founder(const Options& options) {
  Member member = joiner(options, 0, {});
  EXPECT_EQ(only<AskToBegin>(member.step(at(20), Tick{})).size(), 1u);
  EXPECT_EQ(only<Rejoin>(member.step(at(20), MayBegin{0})).size(), 1u);
  return member;
}

// Then worker `rank` joins from the first round on.
void take_in(Member& member, int rank, const Options& options, const Versions& roster) {
  member.step(at(21), Met{rank, 1});
  member.step(at(21), greeting(rank, Standing::in, roster, options));
  member.step(at(21), word(rank, {.kind = Kind::returning}, roster));
  member.step(at(21), word(rank, {.kind = Kind::back, .number = 0}, roster));
}

TEST(Joins, aRankThatWasNeverHeardOfTakesNoPart) {
  Member member = founder(kThree);
  take_in(member, 1, kThree, {1, 1});
  const auto began = only<Freeze>(member.step(at(22), Arrived{0}));
  ASSERT_EQ(began.size(), 1u);
  EXPECT_EQ(began[0].members, (Ranks{0, 1}));
}

// Some of the donor's model may still arrive where the next one would be received.
TEST(Joins, whoseDonorIsLostFetchesNoOtherModelBeforeThatOneIsForgone) {
  Member member = joiner(kThree, 2, {0, 1});
  member.step(at(1), greeting(0, Standing::present, {1, 1}, kThree));
  const auto fetch = only<Adopt>(member.step(at(1), greeting(1, Standing::present, {1, 1}, kThree)));
  ASSERT_EQ(fetch.size(), 1u);
  const int donor = fetch[0].peer;
  const auto lost = member.step(at(2), PeerLost{donor, 1});
  EXPECT_TRUE(only<Adopt>(lost).empty());
  EXPECT_EQ(only<Forgo>(lost).size(), 1u);
  const auto next = only<Adopt>(member.step(at(3), Forgone{}));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].peer, 1 - donor);
}

// The count of the others must not go with a model that no worker has trained.
TEST(Joins, aWorkerThatNobodyCanGiveAModelBeginsAgain) {
  Member member = joiner(kPair, 1);
  EXPECT_EQ(only<Adopt>(member.step(at(1), greeting(0, Standing::present, {1}, kPair))).size(), 1u);
  const auto actions = member.step(at(2), PeerLost{0, 1});
  EXPECT_TRUE(only<Rejoin>(actions).empty());
  ASSERT_EQ(only<Expelled>(actions).size(), 1u);
  EXPECT_EQ(only<Expelled>(actions)[0].by, 1);
}

TEST(Joins, aWorkerThatBeginsAloneCountsFromTheModelThatItBeginsWith) {
  Member member = joiner(kPair, 0, {});
  member.step(at(20), Tick{});
  const auto actions = member.step(at(20), MayBegin{50});
  ASSERT_EQ(only<Rejoin>(actions).size(), 1u);
  EXPECT_EQ(only<Rejoin>(actions)[0].iteration, 50);
  EXPECT_EQ(only<Proceed>(actions).size(), 1u);
  EXPECT_EQ(only<Complete>(member.step(at(21), Arrived{50})).size(), 1u);
}

// The link between two alone is down: the one that is left out says for which other one it waits, once.
TEST(Joins, aWorkerThatReachesOnlySomeOfTheOthersNamesTheOneThatItDoesNotReach) {
  Member member = joiner(kThree, 1, {2});
  EXPECT_TRUE(only<WaitsFor>(member.step(at(1), greeting(2, Standing::present, {1, 0, 1}, kThree))).empty());
  const auto late = only<WaitsFor>(member.step(at(0) + kThree.patience, Tick{}));
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].peer, 0);
  EXPECT_EQ(late[0].by, 2);
  EXPECT_TRUE(only<WaitsFor>(member.step(at(60), Tick{})).empty());
  member.step(at(61), Met{0, 1});
  EXPECT_EQ(only<Adopt>(member.step(at(61), greeting(0, Standing::present, {1, 0, 1}, kThree))).size(), 1u);
}

TEST(Joins, aWorkerThatWasAddedWaitsUntilItMeetsTheOthers) {
  Options alone = kPair;
  alone.workers = 1;
  Member first(alone, 0), added(alone, 1);
  EXPECT_EQ(only<AskToBegin>(first.step(at(0), ComesBack{})).size(), 1u);
  EXPECT_TRUE(only<AskToBegin>(added.step(at(0), ComesBack{})).empty());
  EXPECT_EQ(only<AskToBegin>(added.step(at(0) + alone.patience, Tick{})).size(), 1u);
}

// Worker 1 joins worker 0, and the half of worker 0 counts further than that of worker 2. Then it learns that worker 0
// is lost.
TEST(Joins, aWorkerTakesNoCountFromTheHalfThatItWasJoiningToTheOther) {
  Options options = kThree;
  options.sync = Sync::rolling;
  Member member = joiner(options, 1);
  member.step(at(1), greeting(0, Standing::present, {1}, options));
  member.step(at(1), word(0, {.kind = Kind::minimum, .number = 7}, {1, 1}));
  member.step(at(2), Met{2, 1});
  const auto actions = member.step(at(2), greeting(2, Standing::present, {2, 0, 1}, options));
  EXPECT_EQ(only<Expelled>(actions).size(), 1u);
  EXPECT_TRUE(said(actions, 2, Kind::minimum).empty());
}

// The workers of another host may be another number there, and all have to mean the same groups.
TEST(Joins, whoJoinsTakesTheSizeOfNodesThatTheFlockBeganWith) {
  const Options four{.workers = 4, .group_size = 4, .groups = Grouping::nodes, .elastic = true};
  Options pairs = four;
  pairs.group_size = 2;
  Member member = joiner(four, 1);
  const auto greeted = said(member.step(at(1), greeting(0, Standing::present, {1}, pairs)), 0, Kind::greeting);
  ASSERT_EQ(greeted.size(), 1u);
  Message told = greeted[0];
  told.roster = {1, 1};
  EXPECT_EQ(Greeting::from(told)->group_size, 2);
}

TEST(Joins, whoWasStartedUnderAnIncarnationThatIsLostTakesAHigherOne) {
  Member member = joiner(kPair, 1);
  const auto expelled = only<Expelled>(member.step(at(1), greeting(0, Standing::present, {1, 4}, kPair)));
  ASSERT_EQ(expelled.size(), 1u);
  EXPECT_EQ(expelled[0].incarnation, 3u);
}

// The average that is complete here has all that its members need of this worker, and a word may be slower than parts.
TEST(Joins, aWordAboutTheAttemptThatIsCompleteLeavesNobodyOut) {
  Member member = founder(kThree);
  take_in(member, 1, kThree, {1, 1});
  member.step(at(22), Arrived{0});
  ASSERT_EQ(only<Complete>(complete_round(member, at(22), {2})).size(), 1u);
  const auto absent = [](const Ranks& ranks) {
    return word(1, {.kind = Kind::absent, .number = 0, .ranks = ranks}, {1, 1});
  };
  EXPECT_TRUE(said(member.step(at(23), absent({2})), 1, Kind::absent).empty());
}

TEST(Joins, aWorkerEndsItsLastRoundOnceTheOthersHaveItToo) {
  Member member = founder(kPair);
  take_in(member, 1, kPair, {1, 1});
  member.step(at(22), Arrived{.iteration = 0, .synchronises = true});
  const auto complete = complete_round(member, at(22));
  ASSERT_EQ(only<Complete>(complete).size(), 1u);
  EXPECT_EQ(said(complete, 1, Kind::completed).size(), 1u);
  EXPECT_TRUE(only<Proceed>(complete).empty());
  EXPECT_EQ(only<Proceed>(member.step(at(23), word(1, {.kind = Kind::completed, .number = 0}, {1, 1}))).size(), 1u);
}

TEST(Joins, aWordForAnEarlierIncarnationDoesNotCount) {
  Member member = joiner(kPair, 1, {0}, 2);
  member.step(at(1), greeting(0, Standing::present, {1, 2}, kPair));
  EXPECT_TRUE(only<Give>(member.step(at(2), word(0, {.kind = Kind::wanted}, {1, 1}))).empty());
}

// Worker 1 has learned of worker 2, worker 0 not yet: the trees of the two differ until it has.
TEST(Joins, aCountOfOneWhoKnowsMoreIsKeptUntilThisOneKnowsAsMuch) {
  Options options = kThree;
  options.sync = Sync::rolling;
  options.period = 1;
  Member member = founder(options);
  take_in(member, 1, options, {1, 1});
  const Message count_me{.kind = Kind::count_me, .number = 0, .root = 1, .ranks = {1}};
  EXPECT_TRUE(said(member.step(at(22), word(1, count_me, {1, 1, 1})), 1, Kind::counted).empty());
  member.step(at(23), Met{2, 1});
  EXPECT_EQ(said(member.step(at(23), greeting(2, Standing::in, {1, 1, 1}, options)), 1, Kind::counted).size(), 1u);
}

TEST(Joins, whoIsCountedByOthersAndCannotBeReachedIsLostInTheEnd) {
  Member member = founder(kThree);
  take_in(member, 1, kThree, {1, 1});
  const auto told = member.step(at(22), word(1, {.kind = Kind::minimum, .number = 0}, {1, 1, 1}));
  const auto wakes = only<WakeAt>(told);
  ASSERT_EQ(wakes.size(), 1u);
  EXPECT_EQ(wakes[0].time, at(22) + kThree.patience);
  member.step(wakes[0].time, Tick{});
  const auto next = only<Send>(member.step(at(40), word(1, {.kind = Kind::returning}, {1, 1, 1})));
  ASSERT_FALSE(next.empty());
  EXPECT_EQ(next[0].message.roster, (Versions{1, 1, 2}));
}

// Both take part in rounds of one flock, and neither has asked the other.
TEST(Joins, ofTwoHalvesOfAFlockThatNeverAskedEachOtherTheWeakerOneGivesWay) {
  Member member = founder(kThree);
  member.step(at(22), Met{1, 1});
  EXPECT_TRUE(only<Expelled>(member.step(at(22), greeting(1, Standing::present, {2, 1}, kThree))).empty());
  Member weaker = founder(kThree);
  weaker.step(at(22), Met{1, 1});
  EXPECT_EQ(only<Expelled>(weaker.step(at(22), greeting(1, Standing::present, {2, 1, 1}, kThree))).size(), 1u);
}

// It may have told others that it takes part, and these have the larger schedule then.
TEST(Joins, whoMadeTheScheduleLargerForSomeAndIsLostIsAskedAbout) {
  Member member = founder(kPair);
  take_in(member, 1, kPair, {1, 1});
  member.step(at(22), Met{2, 1});
  member.step(at(22), greeting(2, Standing::in, {1, 1, 1}, kPair));
  member.step(at(22), word(2, {.kind = Kind::returning}, {1, 1, 1}));
  const auto asked = said(member.step(at(23), PeerLost{2, 1}), 1, Kind::asking);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(only<Freeze>(member.step(at(24), Arrived{0})).empty());
  const Message answer{.kind = Kind::grown, .number = asked[0].number, .root = 2, .numbers = {0, 3}};
  const auto began = only<Freeze>(member.step(at(25), word(1, answer, {1, 1, 2})));
  ASSERT_EQ(began.size(), 1u);
  EXPECT_EQ(began[0].round, 0);
}

}  // namespace
}  // namespace flockstep::protocol
