// What comes over the wire that no worker sends: it ends its connection, and nothing else.
#include <deque>
#include <random>

#include "engines/mesh/half_open.h"
#include "engines/mesh/store_client.h"
#include "engines/mesh/wire.h"
#include "mesh_run.h"
#include "mesh_stranger.h"

namespace flockstep::engines::conformance {
namespace {

using base::Duration;
using mesh::FrameCode;
using What = Control::What;

class MeshFrames : public testing::Test {
 protected:
  std::string address() const { return run_.store().book().at(0).address; }
  void SetUp() override { meet(*first_, 1), meet(*second_, 1); }
  // The two who belong to the run have noticed nothing.
  void TearDown() override {
    expect_transfer(*first_, *second_, 1, 100000);
    while (const auto control = first_->take_control()) EXPECT_NE(control->peer, 1);
  }

  // A peer of rank 2 that knows the secret says this once it is admitted, and is lost.
  void expect_lost(const std::function<void(Stranger&)>& say, std::string_view why) {
    Stranger stranger(address());
    const mesh::Card card = stranger.greet(secret_, 2, 1, 77);
    ASSERT_EQ(card.verdict, mesh::Verdict::admitted);
    ASSERT_TRUE(wait_for(*first_, What::met, 2));
    say(stranger);
    const auto lost = wait_for(*first_, What::lost, 2);
    ASSERT_TRUE(lost);
    EXPECT_NE(text_of(*lost).find(why), std::string::npos) << text_of(*lost);
    EXPECT_TRUE(stranger.is_closed());
  }

  MeshRun run_{2, Duration(1)};
  const mesh::Secret secret_{run_.secret()};
  std::unique_ptr<Engine> first_ = run_.make(0), second_ = run_.make(1);
};

std::vector<std::byte> garbage() {
  std::mt19937_64 random(1);
  std::vector<std::byte> garbage(5000);
  for (auto& each : garbage) each = static_cast<std::byte>(random() & 255);
  return garbage;
}

TEST_F(MeshFrames, garbageAndSilenceInsteadOfAHelloAreClosed) {
  Stranger noisy(address()), silent(address());
  noisy.say(garbage());
  EXPECT_TRUE(noisy.is_closed());
  EXPECT_TRUE(silent.is_closed());
}

TEST_F(MeshFrames, aWrongSecretIsClosedWithoutAnAnswer) {
  for (const mesh::Secret& wrong : {mesh::Secret("0123456789abcdef"), mesh::Secret(run_.secret() + "0")}) {
    Stranger stranger(address());
    EXPECT_THROW(stranger.greet(wrong, 2), std::system_error);
  }
}

TEST_F(MeshFrames, aReplayedHelloIsClosed) {
  // What a worker has said to somebody who listens in, as he would say it again.
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::vector<std::byte> hello(mesh::kHelloBytes), claim(mesh::kCardBytes + sizeof(mesh::Proof));
  {
    mesh::StoreOptions its;
    its.secret = run_.secret();
    const mesh::Store store(its);
    auto options = run_.options(2);
    options.store = store.address();
    mesh::register_worker(options.store_address(), 0,
                          mesh::address_text("127.0.0.1", acceptor.local_endpoint().port()));
    const auto victim = mesh::make_engine(options);
    auto socket = acceptor.accept();
    asio::read(socket, asio::buffer(hello));
    asio::write(socket, asio::buffer(mesh::Nonce{}));
    asio::read(socket, asio::buffer(claim));
  }
  Stranger stranger(address());
  stranger.say(hello);
  std::vector<std::byte> nonce(sizeof(mesh::Nonce));
  stranger.hear(nonce);
  stranger.say(claim);
  EXPECT_TRUE(stranger.is_closed());
}

TEST_F(MeshFrames, strangersThatFloodTheDoorKeepNobodyOut) {
  std::deque<Stranger> strangers;
  for (int i = 0; i < 600; ++i) strangers.emplace_back(address());
  const auto third = run_.make(2);
  ASSERT_TRUE(wait_for(*third, What::met, 0));
}

// A distant worker needs many round trips of the flood's for one of its own. Its time for a handshake is limited, too,
// so on a machine that is busy it may need another attempt.
TEST_F(MeshFrames, aFloodFromOneAddressClosesNoHandshakeFromAnother) {
  const auto is_heard = [](const std::string& door, const std::function<bool(Stranger&)>& greets) {
    Stranger distant(door, "127.0.0.2");
    std::deque<Stranger> flood;
    for (std::size_t i = 0; i < mesh::kMostHalfOpen + 8; ++i) flood.emplace_back(door);
    EXPECT_TRUE(flood.front().is_closed());
    try {
      return greets(distant);
    } catch (const std::system_error&) {
      return false;
    }
  };
  const auto greets_worker = [&](Stranger& distant) {
    return distant.greet(secret_, 2).verdict == mesh::Verdict::admitted;
  };
  const auto greets_store = [&](Stranger& distant) {
    mesh::WireWriter hello;
    hello.put(mesh::kStoreMagic);
    hello.put(mesh::Nonce{});
    distant.say(hello.bytes());
    std::vector<std::byte> nonce(sizeof(mesh::Nonce));
    distant.hear(nonce);
    return true;
  };
  int attempts = 0;
  while (!is_heard(address(), greets_worker)) ASSERT_LT(++attempts, 5);
  while (!is_heard(run_.store().address(), greets_store)) ASSERT_LT(++attempts, 5);
}

TEST_F(MeshFrames, garbageInsteadOfFramesIsALoss) {
  expect_lost([&](Stranger& stranger) { stranger.say(garbage()); }, "an invalid frame");
}

TEST_F(MeshFrames, halfAFrameAndThenNothingIsALoss) {
  const mesh::FrameHeader header{.code = FrameCode::control, .length = 100, .from = 1, .to = 1};
  expect_lost([&](Stranger& stranger) { stranger.say(std::as_bytes(std::span(&header, 1)).first(20)); }, "silent");
  expect_lost([&](Stranger& stranger) { stranger.say(std::as_bytes(std::span(&header, 1))); }, "silent");
}

TEST_F(MeshFrames, framesThatBreakTheRulesAreALoss) {
  std::vector<mesh::FrameHeader> headers{{.code = static_cast<FrameCode>(0)},
                                         {.code = static_cast<FrameCode>(200)},
                                         {.mark = 7},
                                         {.kind = static_cast<mesh::Kind>(9)},
                                         {.code = FrameCode::control, .length = kControlBytes + 1},
                                         {.code = FrameCode::book, .length = 0xFFFFFFFF},
                                         {.code = FrameCode::offer, .tag = -1, .number = 1},
                                         {.code = FrameCode::offer, .tag = kMaximalLongTag + 1, .number = 1},
                                         {.code = FrameCode::offer, .length = 10, .number = 1, .size = 20},
                                         {.code = FrameCode::offer, .number = 2},  // the first is 1
                                         {.code = FrameCode::data, .length = 10, .number = 1, .size = 10},
                                         {.code = FrameCode::data, .number = 1},
                                         {.code = FrameCode::pull, .number = 1},
                                         {.code = FrameCode::taken, .number = 1},
                                         {.code = FrameCode::retracted, .number = 1},
                                         {.code = FrameCode::taken, .length = 1, .number = 1},
                                         {.code = FrameCode::answer}};
  for (const auto& header : headers) {
    SCOPED_TRACE(static_cast<int>(header.code));
    expect_lost([&](Stranger& stranger) { stranger.say(header); }, "worker 2 has sent");
  }
  expect_lost([](Stranger& stranger) { stranger.say({.code = FrameCode::heartbeat}, 2, 1); }, "an invalid frame");
  expect_lost([](Stranger& stranger) { stranger.say({.code = FrameCode::heartbeat}, 1, 2); }, "an invalid frame");
}

TEST_F(MeshFrames, randomFramesNeverDoMoreThanEndTheirConnection) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    Stranger stranger(address());
    if (stranger.greet(secret_, 2).verdict != mesh::Verdict::admitted) continue;
    try {
      for (int i = 0; i < 50; ++i) {
        mesh::FrameHeader header{.code = static_cast<FrameCode>(random() % 14)};
        const std::size_t length = random() % 4 ? 0 : random() % 3000;
        header.length = static_cast<std::uint32_t>(length);
        header.tag = static_cast<Tag>(random() % 3);
        header.number = random() % 4;
        header.size = random() % 2 ? length : random();
        header.position = random() % 2 ? 0 : random();
        stranger.say(header);
        stranger.say(std::vector<std::byte>(length, std::byte{1}));
      }
    } catch (const std::system_error&) {  // it was closed
    }
  }
  while (first_->take_control()) {
  }
}

TEST_F(MeshFrames, offersThatNobodyWantsAreLimited) {
  expect_lost(
      [](Stranger& stranger) {
        std::vector<mesh::FrameHeader> offers(70000);
        for (std::size_t i = 0; i < offers.size(); ++i)
          offers[i] = {.code = FrameCode::offer, .from = 1, .to = 1, .number = i + 1, .size = std::uint64_t{1} << 40};
        try {
          stranger.say(std::as_bytes(std::span(offers)));
        } catch (const std::system_error&) {
        }
      },
      "breaks the rules");
}

// An offer whose bytes are nowhere: the receiver reads in vain, asks for them, and gets what comes.
TEST_F(MeshFrames, anOfferThatCannotBeReadIsPulled) {
  Stranger stranger(address());
  ASSERT_EQ(stranger.greet(secret_, 2).verdict, mesh::Verdict::admitted);
  Words data(10000);
  const Pending receive = first_->receive(2, 4, bytes(data));
  stranger.say({.code = FrameCode::offer, .tag = 4, .number = 1, .size = 40000, .position = 8});
  stranger.say({.code = FrameCode::heartbeat});
  mesh::FrameHeader heard;
  do {
    stranger.hear(std::as_writable_bytes(std::span(&heard, 1)));
    std::vector<std::byte> payload(heard.length);
    stranger.hear(payload);
  } while (heard.code != FrameCode::pull);
  stranger.say({.code = FrameCode::data, .length = 30000, .number = 1, .size = 40000});
  const Words slice = words(2, 2, 0, 10000);
  stranger.say(bytes(slice).first(30000));
  stranger.say({.code = FrameCode::data, .length = 10000, .number = 1, .size = 40000, .position = 30000});
  stranger.say(bytes(slice).subspan(30000));
  finish(*first_, receive);
  EXPECT_EQ(data, slice);
}

TEST_F(MeshFrames, anIncarnationThatIsNotNewIsRefusedWithTheKnownOne) {
  Stranger newest(address());
  ASSERT_EQ(newest.greet(secret_, 2, 5, 1).verdict, mesh::Verdict::admitted);
  ASSERT_TRUE(wait_for(*first_, What::met, 2));
  for (const Incarnation old : {4u, 5u}) {
    Stranger stranger(address());
    const mesh::Card card = stranger.greet(secret_, 2, old, 2);
    EXPECT_EQ(card.verdict, mesh::Verdict::outdated);
    EXPECT_EQ(card.known, 5u);
  }
  Stranger next(address());
  EXPECT_EQ(next.greet(secret_, 2, 6, 3).verdict, mesh::Verdict::admitted);
  const auto lost = wait_for(*first_, What::lost, 2);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->incarnation, 5u);
  EXPECT_TRUE(newest.is_closed());
}

}  // namespace
}  // namespace flockstep::engines::conformance
