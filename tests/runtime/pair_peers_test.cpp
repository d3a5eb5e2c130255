// Acquaintances of agents that average in pairs: which words count.
#include "runtime/pairs/pair_peers.h"

#include <gtest/gtest.h>

namespace flockstep::runtime {
namespace {

using Kind = PairMessage::Kind;
using Worth = PairPeers::Worth;
constexpr PairMessage kGreeting{.kind = Kind::greeting, .standing = PairMessage::Standing::present};
constexpr PairMessage kAsk{.kind = Kind::ask, .number = 3};

// Two that know each other: worker 0 and worker 1.
struct Two : testing::Test {
  PairPeers first{1, 7}, second{1, 7};

  void meet() {
    first.on_met(1);
    second.on_met(0);
    const PairMessage of_first = first.addressed(1, kGreeting), of_second = second.addressed(0, kGreeting);
    EXPECT_EQ(first.on_message(1, of_second), Worth::answered);
    EXPECT_EQ(second.on_message(0, of_first), Worth::answered);
    EXPECT_EQ(first.on_message(1, second.addressed(0, kGreeting)), Worth::heard);
    EXPECT_EQ(second.on_message(0, first.addressed(1, kGreeting)), Worth::heard);
  }
};

TEST_F(Two, nothingCountsBeforeAGreeting) {
  first.on_met(1);
  second.on_met(0);
  EXPECT_EQ(second.on_message(0, first.addressed(1, kAsk)), Worth::nothing);
  EXPECT_EQ(first.on_message(5, kGreeting), Worth::nothing);  // of one who was not met
  meet();
  EXPECT_EQ(second.on_message(0, first.addressed(1, kAsk)), Worth::heard);
}

TEST_F(Two, wordsOfAFormerAcquaintanceCountNothing) {
  meet();
  const PairMessage late = first.addressed(1, kAsk), late_greeting = first.addressed(1, kGreeting);
  second.on_lost(0);
  second.on_met(0);
  EXPECT_EQ(second.on_message(0, late), Worth::nothing);
  EXPECT_EQ(second.on_message(0, late_greeting), Worth::nothing);
  first.on_lost(1);
  meet();
  EXPECT_EQ(second.on_message(0, late), Worth::nothing);
}

TEST_F(Two, anotherNameIsAnotherAcquaintance) {
  meet();
  first.on_lost(1);
  first.on_met(1);
  const PairMessage anew = first.addressed(1, kGreeting);  // knows nothing of the other's name
  EXPECT_TRUE(second.is_met_anew(0, anew));
  second.find(0)->gather = 9;
  EXPECT_EQ(second.on_message(0, anew), Worth::answered);
  EXPECT_EQ(second.find(0)->gather, 0u);
  EXPECT_FALSE(second.is_met_anew(0, anew));
}

TEST_F(Two, whoMeansAnotherTrainingIsAStranger) {
  PairPeers other{1, 8};
  first.on_met(1);
  other.on_met(0);
  EXPECT_EQ(first.on_message(1, other.addressed(0, kGreeting)), Worth::answered);
  EXPECT_TRUE(first.find(1)->is_stranger);
  EXPECT_FALSE(first.find(1)->is_present());
}

TEST(PairMessages, whatIsNoneIsNotRead) {
  const PairMessage message{.kind = Kind::given, .from = 1, .to = 2, .number = 3, .steps = 4, .fingerprint = 5};
  const auto bytes = message.to_bytes();
  const auto read = PairMessage::from_bytes(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, Kind::given);
  EXPECT_EQ(read->from, 1u);
  EXPECT_EQ(read->to, 2u);
  EXPECT_EQ(read->number, 3u);
  EXPECT_EQ(read->steps, 4);
  EXPECT_EQ(read->fingerprint, 5u);
  EXPECT_FALSE(PairMessage::from_bytes(std::span(bytes).first(bytes.size() - 1)));
  for (const std::size_t code : {0, 1, 2}) {
    auto wrong = bytes;
    wrong[code] = std::byte{200};
    EXPECT_FALSE(PairMessage::from_bytes(wrong)) << code;
  }
  const PairMessage negative{.kind = Kind::given, .steps = -1};
  EXPECT_FALSE(PairMessage::from_bytes(negative.to_bytes()));
}

}  // namespace
}  // namespace flockstep::runtime
