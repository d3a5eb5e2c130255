// What the schedule explorer found about lost workers, in the fewest steps that show it.
#include <gtest/gtest.h>

#include <algorithm>

#include "actions.h"

namespace flockstep::protocol {
namespace {

TEST(LostPeer, twoWhoHaveBothCompletedARoundDoNotTellEachOtherForEver) {
  Member pair({.workers = 2, .group_size = 2}, 0);
  pair.step(at(1), Arrived{0});
  ASSERT_EQ(only<Complete>(complete_round(pair, at(1))).size(), 1u);
  const auto absent = [](const Ranks& ranks) {
    return Received{1, {.kind = Message::Kind::absent, .number = 0, .ranks = ranks}};
  };
  // Worker 1 has completed it as well: nothing to say. One who has not must hear that worker 0 takes no part.
  EXPECT_TRUE(only<Send>(pair.step(at(2), absent({1}))).empty());
  const auto answer = only<Send>(pair.step(at(2), absent({})));
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].message.ranks, Ranks{0});
}

TEST(LostPeer, aDeadlineThatPassesWhileOnlyTheLostHaveArrivedAsksForNoTimeInThePast) {
  Member member({.workers = 3, .group_size = 3, .activation = Activation::deadline, .deadline = base::Duration(1)}, 0);
  member.step(at(1), Received{1, {.kind = Message::Kind::arrived, .number = 0}});
  member.step(at(1.5), PeerLost{1});
  for (const WakeAt& wake : only<WakeAt>(member.step(at(2.5), Tick{}))) EXPECT_GT(wake.time, at(2.5));
  // The next one to arrive has waited long enough already.
  const auto began =
      only<Freeze>(member.step(at(3), Received{2, {.kind = Message::Kind::arrived, .number = 0, .roster = {1, 2, 1}}}));
  ASSERT_EQ(began.size(), 1u);
  EXPECT_EQ(began[0].members, (Ranks{0, 2}));
}

}  // namespace
}  // namespace flockstep::protocol
