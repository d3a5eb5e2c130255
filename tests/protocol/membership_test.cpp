// Members that leave: the last one there needs nobody, and a round that has begun keeps its members. The schedule
// explorer checks that rounds are over exactly those who are there.
#include <gtest/gtest.h>

#include "protocol/member.h"
#include "simulated.h"

namespace flockstep::protocol {
namespace {

constexpr int kLast = 3;

// Its own event alone takes the last worker through each iteration: it sends no part, and says the word of the round to
// each once.
class NeedsNobody final : public simulation::Checker {
 public:
  NeedsNobody(const simulation::Truth& truth, int& iterations)
      : Checker(truth, "the last one there needs nobody"), iterations_(iterations) {}

  bool watches_parts() const override { return true; }
  void before(int rank, const Event& event) override {
    has_arrived_ = rank == kLast && is_alone() && std::holds_alternative<Arrived>(event);
    iterations_ += has_arrived_;
    messages_ = 0;
  }
  void after(int rank, const Action& action) override {
    if (rank != kLast || !is_alone()) return;
    if (std::holds_alternative<SendPart>(action)) fail(rank, worker().executed(), "it sends a part");
    if (std::holds_alternative<Send>(action) && ++messages_ > 5) fail(rank, worker().executed(), "it says more");
  }
  void settled(int) override {
    if (has_arrived_ && worker().begun() != worker().version() + 1) fail(kLast, worker().version(), "it waits");
  }

 private:
  const simulation::StandIn& worker() const { return truth_.worker(kLast); }
  // It has heard so, and the rounds that the others take part in have run.
  bool is_alone() const {
    return simulation::size_of(truth_.away) == truth_.options().workers - 1 && truth_.now > truth_.last_change + 30;
  }

  int& iterations_;
  int messages_ = 0;
  bool has_arrived_ = false;
};

TEST(Membership, whoIsLeftAloneNeedsNobody) {
  for (const Activation activation :
       {Activation::first, Activation::majority, Activation::quorum, Activation::deadline}) {
    simulation::Scenario scenario = scenario_of({.workers = 6,
                                                 .group_size = 3,
                                                 .sync = Sync::barrier,
                                                 .period = 4,
                                                 .activation = activation,
                                                 .quorum = 6,
                                                 .deadline = base::Duration(5)},
                                                100);
    for (const int rank : {0, 1, 2, 4, 5}) scenario.absences.push_back({.rank = rank, .is_for_good = true});
    int iterations = 0;
    EXPECT_NO_THROW(run_watched_by<NeedsNobody>(scenario, iterations));
    EXPECT_GT(iterations, 20);
  }
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
