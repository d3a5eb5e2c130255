// Members that leave and come back, in a world without delays: for any number of workers and any size of groups, rounds
// are over exactly those who are there, and the last one there needs nobody.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>

#include "protocol/member.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {
namespace {

// Everything that is sent arrives at once, in the order in which it was sent.
class World {
 public:
  explicit World(const Options& options) : options_(options) {
    for (int rank = 0; rank < options.workers; ++rank) members_.push_back(std::make_unique<Member>(options, rank));
    proceeded_.resize(members_.size(), options.first);
    frozen_.resize(members_.size());
  }

  void tell(int rank, const Event& event) {
    events_.emplace_back(rank, event);
    while (!events_.empty()) {
      const auto [to, what] = events_.front();
      events_.pop_front();
      for (const Action& action : members_[static_cast<std::size_t>(to)]->step(now_, what)) perform(to, action);
    }
  }
  // Those who are there end their iteration, one after the other.
  void step(const Ranks& there) {
    for (const int rank : there) tell(rank, Arrived{proceeded(rank)});
  }

  Iteration proceeded(int rank) const { return proceeded_[static_cast<std::size_t>(rank)]; }
  const std::map<Iteration, Ranks>& frozen(int rank) const { return frozen_[static_cast<std::size_t>(rank)]; }
  const Member& member(int rank) const { return *members_[static_cast<std::size_t>(rank)]; }
  int messages = 0;  // and parts
  std::vector<std::pair<int, int>> adoptions;

 private:
  void perform(int rank, const Action& action) {
    if (const auto* send = std::get_if<Send>(&action)) {
      ++messages;
      events_.emplace_back(send->peer, Received{rank, send->message});
    } else if (const auto* part = std::get_if<SendPart>(&action)) {
      ++messages;
      events_.emplace_back(rank, PartSent{part->peer, part->part});
      events_.emplace_back(part->peer, PartReceived{rank, part->part});
    } else if (const auto* freeze = std::get_if<Freeze>(&action)) {
      frozen_[static_cast<std::size_t>(rank)][freeze->round] = freeze->members;
    } else if (const auto* give = std::get_if<Give>(&action)) {
      events_.emplace_back(give->peer, Adopted{rank});
      adoptions.emplace_back(rank, give->peer);
    } else if (const auto* proceed = std::get_if<Proceed>(&action)) {
      proceeded_[static_cast<std::size_t>(rank)] = proceed->iteration;
    }
  }

  Options options_;
  base::Time now_{};
  std::vector<std::unique_ptr<Member>> members_;
  std::deque<std::pair<int, Event>> events_;
  std::vector<Iteration> proceeded_;
  std::vector<std::map<Iteration, Ranks>> frozen_;  // who took part in which round, by rank
};

Ranks everybody(int workers) {
  Ranks all(static_cast<std::size_t>(workers));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void expect_groups_of(const World& world, const Options& options, Iteration round, const Ranks& there) {
  for (const int rank : there) {
    const bool is_over_all = options.sync != Sync::none && (round + 1) % options.period == 0;
    const Ranks group = is_over_all ? everybody(options.workers)
                                    : math::GroupSchedule(options.workers, options.group_size).group_of(rank, round);
    ASSERT_TRUE(world.frozen(rank).contains(round)) << "worker " << rank << ", round " << round;
    ASSERT_EQ(world.frozen(rank).at(round), common(group, there)) << "worker " << rank << ", round " << round;
  }
}

template <typename Check>
void for_many(const Check& check) {
  for (int workers = 2; workers <= 9; ++workers)
    for (int group_size = 2; group_size <= workers; ++group_size)
      for (const Sync sync : {Sync::barrier, Sync::rolling, Sync::none})
        for (const Activation activation :
             {Activation::first, Activation::majority, Activation::quorum, Activation::appointed}) {
          SCOPED_TRACE(testing::Message() << workers << " workers in groups of " << group_size << ", sync "
                                          << static_cast<int>(sync) << ", activation " << static_cast<int>(activation));
          check(Options{.workers = workers,
                        .group_size = group_size,
                        .sync = sync,
                        .period = 4,
                        .activation = activation,
                        .quorum = workers});
        }
}

TEST(Membership, roundsAreOverExactlyThoseWhoAreThere) {
  for_many([](const Options& options) {
    World world(options);
    Ranks there = everybody(options.workers);
    const auto steps = [&](int count) {
      for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
        const Iteration round = world.proceeded(there[0]);
        world.step(there);
        expect_groups_of(world, options, round, there);
        for (const int rank : there) ASSERT_EQ(world.proceeded(rank), round + 1) << "worker " << rank << " waits";
      }
    };
    steps(3);
    // One after the other leaves, until one is alone; then all come back.
    for (const int leaver : without(everybody(options.workers), {options.workers / 2})) {
      world.tell(leaver, Leaves{});
      there = without(there, {leaver});
      steps(6);
    }
    const Iteration now = world.proceeded(there[0]);
    for (const int absent : without(everybody(options.workers), there)) {
      world.tell(absent, ComesBack{});
      ASSERT_EQ(world.proceeded(absent), now);
      there = united(there, {absent});
    }
    EXPECT_EQ(world.adoptions.size(), there.size() - 1);
    steps(9);
  });
}

TEST(Membership, whoIsLeftAloneNeedsNobody) {
  for (const Activation activation :
       {Activation::first, Activation::majority, Activation::quorum, Activation::deadline}) {
    World world({.workers = 6,
                 .group_size = 3,
                 .sync = Sync::barrier,
                 .period = 4,
                 .activation = activation,
                 .quorum = 6,
                 .deadline = base::Duration(5)});
    for (const int rank : {0, 1, 2, 4, 5}) world.tell(rank, Leaves{});
    // Its own event alone takes it through each iteration: no part is sent, and what the others hear is not answered.
    for (Iteration iteration = 0; iteration < 20; ++iteration) {
      world.messages = 0;
      world.tell(3, Arrived{iteration});
      ASSERT_EQ(world.proceeded(3), iteration + 1);
      EXPECT_EQ(world.frozen(3).at(iteration), Ranks{3});
      EXPECT_LE(world.messages, 5) << "the word of the round, to each once";
    }
  }
}

TEST(Membership, allLeaveAndOneComesBack_withItsOwnModel) {
  World world({.workers = 3, .group_size = 2, .sync = Sync::rolling, .period = 3});
  for (int i = 0; i < 4; ++i) world.step({0, 1, 2});
  for (const int rank : {2, 0, 1}) world.tell(rank, Leaves{});
  world.tell(1, ComesBack{});
  EXPECT_TRUE(world.adoptions.empty());
  EXPECT_EQ(world.proceeded(1), 4);
  for (int i = 0; i < 10; ++i) world.step({1});
  EXPECT_EQ(world.proceeded(1), 14);
  world.tell(2, ComesBack{});
  EXPECT_EQ(world.adoptions, (std::vector<std::pair<int, int>>{{1, 2}}));
  EXPECT_EQ(world.proceeded(2), 14);
}

// Worker 1 has begun round 1 when worker 0 leaves: so that round is still worker 0's, and the next one is not.
TEST(Membership, aRoundThatSomebodyHasBegunKeepsItsMembers) {
  Member leaver({.workers = 2, .group_size = 2, .sync = Sync::none}, 0);
  const auto kinds = [](const std::vector<Action>& actions) {
    std::vector<Message::Kind> kinds;
    for (const Action& action : actions)
      if (const auto* send = std::get_if<Send>(&action)) kinds.push_back(send->message.kind);
    return kinds;
  };
  using Kind = Message::Kind;
  EXPECT_EQ(kinds(leaver.step({}, Leaves{})), std::vector{Kind::leaving});
  const auto actions = leaver.step({}, Received{1, {.kind = Kind::newest, .number = 1}});
  EXPECT_EQ(kinds(actions), std::vector{Kind::away});
  EXPECT_EQ(std::get<Send>(actions[0]).message.number, 2);
  const auto begun = leaver.step({}, Received{1, {.kind = Kind::activate, .number = 5, .root = 1}});
  EXPECT_EQ(std::get<Freeze>(begun[0]).round, 0);
  EXPECT_FALSE(leaver.is_done_until(5));
  Iteration newest = 0;
  for (Iteration round = 0; round < 5; ++round)
    for (const Phase phase : {Phase::reduce, Phase::gather})
      for (const Event& event : {Event(PartSent{1, {round, phase, 0}}), Event(PartReceived{1, {round, phase, 0}})}) {
        if (newest < round) break;
        for (const Action& action : leaver.step({}, event))
          if (const auto* freeze = std::get_if<Freeze>(&action)) newest = freeze->round;
      }
  EXPECT_EQ(newest, 1);
  EXPECT_TRUE(leaver.is_done_until(5));
}

}  // namespace
}  // namespace flockstep::protocol
