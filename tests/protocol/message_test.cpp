// What arrives from a peer may be anything: it is a message that a member can say, or it is refused.
#include "protocol/message.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "flockstep/error.h"
#include "protocol/member.h"

namespace flockstep::protocol {
namespace {

using Kind = Message::Kind;
constexpr int kWorkers = 5;

std::optional<Message> read(const std::vector<std::byte>& bytes) {
  try {
    return message_from_bytes(bytes, kWorkers);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    return std::nullopt;
  }
}

TEST(Message, whatMembersSayIsReadAsItWasSaid) {
  const std::vector<Message> said{
      {Kind::arrived, 17},           {Kind::activate, 3, 4}, {Kind::absent, 5, 0, {1, 3}, {}, {1, 1, 1, 2}},
      {Kind::finished, kAway},       {Kind::newest, -1},     {Kind::count_me, kAway, 2, {7}},
      {Kind::counted, 12, 4, {1000}}};
  for (const Message& message : said) EXPECT_EQ(read(to_bytes(message)), message);
}

TEST(Message, whatNoMemberSaysIsRefused) {
  const std::vector<Message> bad{{Kind::activate, 3, kWorkers},
                                 {Kind::activate, 3, -1},
                                 {Kind::arrived, -2},
                                 {Kind::arrived, kAway},
                                 {Kind::arrived, 1, 0, {2}},
                                 {Kind::absent, 1, 0, {2, 2}},
                                 {Kind::absent, 1, 0, {3, 2}},
                                 {Kind::absent, 1, 0, {kWorkers}},
                                 {Kind::count_me, 1, 0, {}},
                                 {Kind::minimum, 1, 0, {}, {1}},
                                 {Kind::minimum, 1, 0, {}, {}, {2, 2, 4}},
                                 {Kind::minimum, 1, 0, {}, {}, {1, 1, 1, 1, 1, 1}},
                                 {static_cast<Kind>(17), 1}};
  for (const Message& message : bad) EXPECT_FALSE(read(to_bytes(message)).has_value());
}

// Changed bytes, and members that hear what can be read of them, whatever sense it makes. Of losses nobody hears on an
// engine, which none outlives: RoundAgent refuses such messages.
TEST(Message, noBytesCrashTheOneWhoHearsThem) {
  int heard = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    base::Random random(3, base::Purpose::test, seed);
    const auto below = [&](std::uint32_t end) { return static_cast<int>(random.below(end)); };
    const Options options{.workers = kWorkers,
                          .group_size = 2 + below(4),
                          .sync = static_cast<Sync>(below(3)),
                          .period = 1 + below(5),
                          .activation = static_cast<Activation>(below(5)),
                          .quorum = 2};
    Member member(options, below(kWorkers));
    for (int time = 0; time < 40; ++time) {
      Message message{static_cast<Kind>(below(17)), below(8) - 1, below(kWorkers)};
      if (message.kind == Kind::count_me || message.kind == Kind::counted) message.ranks = {below(3)};
      std::vector<std::byte> bytes = to_bytes(message);
      if (below(3) == 0) bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] = std::byte(random.below(256));
      if (below(9) == 0) bytes.resize(random.below(40));
      const std::optional<Message> read_back = read(bytes);
      if (!read_back || read_back->tells_of_losses()) continue;
      ++heard;
      member.step(base::Time(base::Duration(time)), Received{below(kWorkers), *read_back});
    }
  }
  EXPECT_GT(heard, 10000);
}

}  // namespace
}  // namespace flockstep::protocol
