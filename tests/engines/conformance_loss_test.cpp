// The part of the suite for engines that outlive their peers: what those who stay hear and keep when one is lost, and
// when it comes back. Worker 0 is the one who is lost.
#include <functional>

#include "mortal.h"
#include "support/refusal.h"

namespace flockstep::engines::conformance {
namespace {

using base::Duration;
using What = Control::What;

class ConformanceLoss : public testing::Test {
 protected:
  void SetUp() override {
    if (!subject_outlives_peers()) GTEST_SKIP() << subject().engine << " fails as a whole when a worker is lost";
    if (subject().workers == 1) GTEST_SKIP() << "one worker has nobody to lose";
  }
};

void say(Engine& engine, int peer, std::uint32_t word) { engine.send_control(peer, bytes(Words{word})); }

void expect_gone(Engine& engine, Operation& operation) {
  ASSERT_TRUE(settles(engine, operation));
  EXPECT_FALSE(operation.done());
  EXPECT_EQ(operation.gone(), 0);
  operation.withdraw();
  EXPECT_TRUE(engine.wait_until([&] { return operation.done(); }, in_good_time(engine)));
}

// Those who stay pass numbers around.
void expect_the_others_go_on(Engine& engine, Tag tag) {
  const int others = engine.size() - 1, place = engine.rank() - 1;
  const int next = (place + 1) % others + 1, previous = (place + others - 1) % others + 1;
  const Words sent = words(7, engine.rank(), next, 30000);
  Words received(sent.size());
  const Pending receive = engine.receive(previous, tag, bytes(received)), send = engine.send(next, tag, bytes(sent));
  finish(engine, receive);
  finish(engine, send);
  EXPECT_EQ(received, words(7, previous, engine.rank(), sent.size()));
}

// Worker 0 is lost when all others have issued an operation that needs it.
void lose_while(const std::function<Pending(Engine&, Words&)>& issue) {
  for (const std::size_t size : {std::size_t{10}, std::size_t{100000}})
    on_mortal_workers([&](Engine& engine) {
      Hearing hearing(engine);
      if (engine.rank() == 0) {
        for (int peer = 1; peer < engine.size(); ++peer) hearing.expect_word(peer, 1);
        throw Killed{};
      }
      auto data = std::make_unique<Words>(size, 5);
      Pending pending = issue(engine, *data);
      say(engine, 0, 1);
      expect_gone(engine, *pending);
      pending.reset();
      data.reset();  // nobody touches it any more
      hearing.expect(0, What::lost, 1);
      expect_the_others_go_on(engine, 3);
    });
}

TEST_F(ConformanceLoss, aReceiveFromOrASendToTheLostIsGoneAndItsBytesAreFree) {
  lose_while([](Engine& engine, Words& data) { return engine.receive(0, 1, bytes(data)); });
  lose_while([](Engine& engine, Words& data) { return engine.send(0, 1, bytes(std::as_const(data))); });
}

void expect_peer_lost(const std::function<void()>& action) {
  const std::string said = test::refusal(ErrorCode::peer_lost, action);
  EXPECT_NE(said.find("worker 0, which has ended"), std::string::npos) << said;
}

TEST_F(ConformanceLoss, aCollectiveUnderWayThrowsAnErrorThatNamesTheLost) {
  on_mortal_workers([](Engine& engine) {
    Hearing hearing(engine);
    if (engine.rank() == 0) {
      for (int peer = 1; peer < engine.size(); ++peer) hearing.expect_word(peer, 1);
      throw Killed{};
    }
    const Pending barrier = engine.barrier();
    say(engine, 0, 1);
    expect_peer_lost([&] { finish(engine, barrier); });
  });
}

TEST_F(ConformanceLoss, aCollectiveWithoutTheLostThrowsAnErrorThatNamesIt) {
  on_mortal_workers([](Engine& engine) {
    if (engine.rank() == 0) throw Killed{};
    Hearing(engine).expect(0, What::lost, 1);
    const Words mine(100);
    Blocks blocks(engine, 100);
    expect_peer_lost([&] { finish(engine, engine.all_gather(bytes(mine), blocks.places())); });
  });
}

TEST_F(ConformanceLoss, aPeerIsMetBeforeItSaysAnythingAndLostAfterAll) {
  constexpr std::uint32_t kWords = 50;
  on_mortal_workers([](Engine& engine) {
    Hearing hearing(engine);
    const Incarnation life = engine.incarnation();
    if (engine.rank() == 0) {
      if (life > 1)
        for (int peer = 1; peer < engine.size(); ++peer) hearing.expect(peer, What::met, 1);
      for (std::uint32_t i = 0; i < kWords; ++i)
        for (int peer = 1; peer < engine.size(); ++peer) say(engine, peer, life * kWords + i);
      throw Killed{.comes_back = life == 1};
    }
    for (Incarnation each = 1; each <= 2; ++each) {
      if (each > 1) hearing.expect(0, What::met, each);
      for (std::uint32_t i = 0; i < kWords; ++i) hearing.expect_word(0, each * kWords + i);
      hearing.expect(0, What::lost, each);
    }
  });
}

TEST_F(ConformanceLoss, whatIsSentToTheLostIsDroppedOrGone) {
  on_mortal_workers([](Engine& engine) {
    if (engine.rank() == 0) throw Killed{};
    Hearing(engine).expect(0, What::lost, 1);
    for (std::uint32_t i = 0; i < 100; ++i) say(engine, 0, i);
    const Words sent(1000);
    Words data(1000);
    expect_gone(engine, *engine.send(0, 1, bytes(sent)));
    expect_gone(engine, *engine.receive(0, 1, bytes(data)));
    expect_the_others_go_on(engine, 1);
  });
}

TEST_F(ConformanceLoss, aPeerThatComesBackIsMetUnderAHigherIncarnationAndGetsNothingOld) {
  on_mortal_workers([](Engine& engine) {
    Hearing hearing(engine);
    const Words old(1000, 9);
    if (engine.rank() == 0) {
      if (engine.incarnation() == 1) {
        Words data(1);
        for (int peer = 1; peer < engine.size(); ++peer) finish(engine, engine.receive(peer, 2, bytes(data)));
        throw Killed{.comes_back = true};  // what the others have said is there, and not taken
      }
      EXPECT_EQ(engine.incarnation(), 2u);
      for (int peer = 1; peer < engine.size(); ++peer) {
        hearing.expect(peer, What::met, 1);
        hearing.expect_word(peer, 100);
        Words data(1000);
        finish(engine, engine.receive(peer, 3, bytes(data)));
        EXPECT_EQ(data, words(1, peer, 0, 1000));
        say(engine, peer, 200);
      }
      for (int peer = 1; peer < engine.size(); ++peer) hearing.expect(peer, What::lost, 1);
      return;
    }
    const Pending unwanted = engine.send(0, 3, bytes(old));
    for (std::uint32_t i = 0; i < 20; ++i) say(engine, 0, i);
    const Words all_is_said(1);
    const Pending last = engine.send(0, 2, bytes(all_is_said));
    ASSERT_TRUE(settles(engine, *last));
    expect_gone(engine, *unwanted);
    hearing.expect(0, What::lost, 1);
    hearing.expect(0, What::met, 2);
    say(engine, 0, 100);
    const Words sent = words(1, engine.rank(), 0, 1000);
    finish(engine, engine.send(0, 3, bytes(sent)));
    hearing.expect_word(0, 200);
  });
}

TEST_F(ConformanceLoss, aWorkerThatBeginsAgainIsLostAndMetUnderAHigherIncarnation) {
  on_mortal_workers([](Engine& engine) {
    Hearing hearing(engine);
    Words data(1000);
    if (engine.rank() == 0) {
      for (int peer = 1; peer < engine.size(); ++peer) hearing.expect_word(peer, 1);
      engine.begin_again(5);
      EXPECT_EQ(engine.incarnation(), 5u);
      for (int peer = 1; peer < engine.size(); ++peer) {
        hearing.expect(peer, What::lost, 1);
        hearing.expect(peer, What::met, 1);
        say(engine, peer, 2);
        hearing.expect_word(peer, 2);
        finish(engine, engine.receive(peer, 4, bytes(data)));
        EXPECT_EQ(data, words(1, peer, 0, 1000));
      }
      return;
    }
    const Pending old = engine.receive(0, 4, bytes(data));
    say(engine, 0, 1);
    expect_gone(engine, *old);
    hearing.expect(0, What::lost, 1);
    hearing.expect(0, What::met, 5);
    hearing.expect_word(0, 2);
    say(engine, 0, 2);
    const Words sent = words(1, engine.rank(), 0, 1000);
    finish(engine, engine.send(0, 4, bytes(sent)));
    hearing.expect(0, What::lost, 5);
  });
}

TEST_F(ConformanceLoss, whatIsWithdrawnMeetsNothingThatComesLater) {
  on_mortal_workers([](Engine& engine) {
    Hearing hearing(engine);
    for (const std::size_t size : {std::size_t{10}, std::size_t{50000}}) {
      const Words sent = words(2, 0, 1, size), unwanted(size, 1);
      Words data(size), unfilled(size);
      if (engine.rank() == 0) {
        const Pending send = engine.send(1, 5, bytes(unwanted));
        send->withdraw();
        ASSERT_TRUE(engine.wait_until([&] { return send->done(); }, in_good_time(engine)));
        say(engine, 1, 1);
        hearing.expect_word(1, 1);
        finish(engine, engine.send(1, 5, bytes(sent)));
      } else if (engine.rank() == 1) {
        const Pending receive = engine.receive(0, 5, bytes(unfilled));
        receive->withdraw();
        ASSERT_TRUE(engine.wait_until([&] { return receive->done(); }, in_good_time(engine)));
        EXPECT_TRUE(unfilled == Words(size) || unfilled == unwanted);  // it may have come before
        const Words before = unfilled;
        hearing.expect_word(0, 1);  // nothing is under way any more
        say(engine, 0, 1);
        finish(engine, engine.receive(0, 5, bytes(data)));
        EXPECT_EQ(data, sent);
        EXPECT_EQ(unfilled, before);
      }
    }
  });
}

TEST_F(ConformanceLoss, aWorkerThatClosesIsLostAndCannotGoOn) {
  on_mortal_workers([](Engine& engine) {
    if (engine.rank() != 0) return Hearing(engine).expect(0, What::lost, 1);
    engine.close();
    EXPECT_THROW(engine.wait_until([] { return false; }, in_good_time(engine)), Error);
    EXPECT_THROW(say(engine, 1, 1), Error);
    EXPECT_THROW(engine.barrier(), Error);
  });
}

TEST_F(ConformanceLoss, aWorkerThatFailsBreaksItsOwnEngineAlone) {
  on_mortal_workers([](Engine& engine) {
    if (engine.rank() == 0) {
      EXPECT_THROW(engine.fail(Error(ErrorCode::bad_file, "the disk is full")), Error);
      EXPECT_THROW(say(engine, 1, 1), Error);
      return;
    }
    const Control lost = Hearing(engine).next(0);
    EXPECT_EQ(lost.what, What::lost);
    EXPECT_NE(text_of(lost).find("the disk is full"), std::string::npos) << text_of(lost);
    expect_the_others_go_on(engine, 1);
  });
}

}  // namespace
}  // namespace flockstep::engines::conformance
