// What the mesh engine promises beyond the contract of all engines: peers that are lost, taken back and replaced, and
// operations that are withdrawn.
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <filesystem>
#include <thread>

#include "engines/mesh/handshake.h"
#include "mesh_run.h"
#include "support/refusal.h"

namespace flockstep::engines::conformance {
namespace {

using base::Duration;
using What = Control::What;

// ---- what worker processes do ----

TEST(MeshProcess, DISABLED_idles) {
  const auto engine = mesh::make_engine(mesh::MeshOptions::from_environment());
  engine->wait_until([] { return false; }, in_good_time(*engine));
}

// A long message each way, again and again, through connections.
TEST(MeshProcess, DISABLED_exchanges) {
  auto options = mesh::MeshOptions::from_environment();
  options.reads_memory = false;
  const auto engine = mesh::make_engine(options);
  const Words sent(kLong, 7);
  Words received(kLong);
  for (Tag tag = 0;; ++tag) {
    const Pending receive = engine->receive(0, tag, bytes(received)), send = engine->send(0, tag, bytes(sent));
    ASSERT_TRUE(settles(*engine, *receive) && settles(*engine, *send));
    if (receive->gone() || send->gone()) return;
  }
}

// ---- loss ----

using MeshLoss = MeshExchange;

TEST_F(MeshLoss, aKilledPeerIsLostAtOnce) {
  MeshRun run(2);
  WorkerProcess other(run.options(1), "exchanges");
  EXPECT_LT(exchange_until_lost(run, [&] { other.signal(SIGKILL); }), 1);
}

TEST_F(MeshLoss, aStoppedPeerIsLostInTimeThoughDataAreUnderWay) {
  MeshRun run(2, Duration(1));
  WorkerProcess other(run.options(1), "exchanges");
  const double noticed = exchange_until_lost(run, [&] { other.signal(SIGSTOP); });
  EXPECT_GT(noticed, 0.4);
  EXPECT_LT(noticed, 2);
}

TEST_F(MeshLoss, aStoppedPeerThatSendsNothingIsLostInTimeAndIsMetAgainWhenItGoesOn) {
  MeshRun run(2, Duration(0.5));
  WorkerProcess other(run.options(1), "idles");
  const auto engine = run.make(0);
  ASSERT_TRUE(wait_for(*engine, What::met, 1));
  other.signal(SIGSTOP);
  const base::Time stopped = engine->now();
  const auto lost = wait_for(*engine, What::lost, 1);
  ASSERT_TRUE(lost);
  EXPECT_LT((engine->now() - stopped).count(), 1.5);
  EXPECT_EQ(text_of(*lost), "worker 1 has been silent for 0.5 s");
  other.signal(SIGCONT);
  const auto met = wait_for(*engine, What::met, 1);
  ASSERT_TRUE(met);
  EXPECT_EQ(met->incarnation, 1u);
}

TEST_F(MeshLoss, twoPeersKilledAtOnceLeaveTheOthersAtWork) {
  MeshRun run(4);
  WorkerProcess second(run.options(1), "idles"), third(run.options(2), "idles");
  const auto first = run.make(0), fourth = run.make(3);
  meet(*first, 3);
  meet(*fourth, 3);
  Words never(10), data(kLong);
  const Pending from_second = first->receive(1, 1, bytes(never));
  second.signal(SIGKILL), third.signal(SIGKILL);
  const Words sent = words(1, 0, 3, kLong);
  const Pending receive = fourth->receive(0, 9, bytes(data));
  const Pending send = first->send(3, 9, bytes(sent));
  ASSERT_TRUE(settles(*fourth, *receive) && settles(*first, *send) && settles(*first, *from_second));
  EXPECT_TRUE(receive->done() && send->done());
  EXPECT_EQ(data, sent);
  EXPECT_EQ(from_second->gone(), 1);
}

TEST(Mesh, aPeerThatClosesIsLostAfterWhatItHasSaid) {
  MeshRun run(2);
  const auto first = run.make(0);
  {
    const auto second = run.make(1);
    ASSERT_TRUE(wait_for(*second, What::met, 0));
    for (std::uint32_t i = 0; i < 100; ++i) second->send_control(0, bytes(Words{i}));
  }
  EXPECT_EQ(first->take_control().value().what, What::met);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const auto said = wait_for(*first, What::message, 1);
    ASSERT_TRUE(said);
    EXPECT_TRUE(std::ranges::equal(said->payload, bytes(Words{i})));
  }
  const auto lost = wait_for(*first, What::lost, 1);
  ASSERT_TRUE(lost);
  EXPECT_EQ(text_of(*lost), "worker 1 has ended");
  first->send_control(1, bytes(Words{1}));  // which nobody hears
  Words data(10);
  const Pending late = first->receive(1, 3, bytes(data));
  ASSERT_TRUE(settles(*first, *late));
  EXPECT_EQ(late->gone(), 1);
  EXPECT_FALSE(late->done());
  late->withdraw();
  EXPECT_TRUE(late->done());
}

TEST(Mesh, aWorkerThatFailsBreaksItsOwnEngineAndItsPeersHearWhy) {
  MeshRun run(3);
  const auto first = run.make(0), second = run.make(1), third = run.make(2);
  for (Engine* engine : {first.get(), second.get(), third.get()}) meet(*engine, 2);
  EXPECT_EQ(test::code_of([&] { second->fail(Error(ErrorCode::bad_file, "the disk is full")); }), ErrorCode::bad_file);
  EXPECT_EQ(test::code_of([&] { second->send_control(0, {}); }), ErrorCode::bad_file);
  for (Engine* engine : {first.get(), third.get()}) {
    const auto lost = wait_for(*engine, What::lost, 1);
    ASSERT_TRUE(lost);
    EXPECT_EQ(text_of(*lost), "the disk is full");
  }
  first->send_control(2, bytes(Words{1}));
  EXPECT_TRUE(wait_for(*third, What::message, 0));
  // A collective needs everybody.
  const Pending barrier = first->barrier();
  EXPECT_EQ(test::code_of([&] { finish(*first, barrier); }), ErrorCode::bad_file);
}

TEST(Mesh, aCollectiveNamesTheLostRank) {
  MeshRun run(3);
  const auto first = run.make(0), third = run.make(2);
  auto second = run.make(1);
  ASSERT_TRUE(wait_for(*first, What::met, 1));
  const Pending barrier = first->barrier();
  second.reset();
  try {
    finish(*first, barrier);
    ADD_FAILURE() << "a barrier without worker 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    EXPECT_NE(std::string_view(error.what()).find("worker 1"), std::string_view::npos) << error.what();
  }
}

TEST(Mesh, aCollectiveWaitsForThoseWhoHaveNotComeYet) {
  MeshRun run(2);
  const auto first = run.make(0);
  const Pending barrier = first->barrier();
  EXPECT_FALSE(first->wait_until([&] { return barrier->done(); }, first->now() + Duration(0.05)));
  const auto second = run.make(1);
  finish(*second, second->barrier());
  finish(*first, barrier);
}

// ---- taking back ----

TEST(Mesh, aRestartedWorkerTakesThePlaceOfItsPredecessorThoughThatIsStillThere) {
  MeshRun run(2);
  const auto first = run.make(0), old = run.make(1);
  ASSERT_TRUE(wait_for(*first, What::met, 1));
  Words data(10);
  const Pending waiting = first->receive(1, 1, bytes(data));
  WorkerProcess other(run.options(1), "idles");
  const auto lost = wait_for(*first, What::lost, 1);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->incarnation, 1u);
  const auto met = wait_for(*first, What::met, 1);
  ASSERT_TRUE(met);
  EXPECT_EQ(met->incarnation, 2u);
  ASSERT_TRUE(settles(*first, *waiting));
  EXPECT_EQ(waiting->gone(), 1);
}

TEST(Mesh, aWorkerThatBeginsAgainIsLostAndMetUnderAHigherIncarnation) {
  MeshRun run(2);
  const auto first = run.make(0), second = run.make(1);
  ASSERT_TRUE(wait_for(*first, What::met, 1) && wait_for(*second, What::met, 0));
  Words data(kLong);
  const Words sent = words(1, 1, 0, kLong);
  const Pending old = first->receive(1, 1, bytes(data)), old_send = second->send(0, 2, bytes(sent));
  second->begin_again(5);
  EXPECT_EQ(second->incarnation(), 5u);
  EXPECT_EQ(run.store().book().at(1).incarnation, 5u);
  ASSERT_TRUE(settles(*first, *old) && settles(*second, *old_send));
  EXPECT_EQ(old->gone(), 1);
  EXPECT_EQ(old_send->gone(), 0);
  ASSERT_TRUE(wait_for(*first, What::lost, 1));
  const auto met = wait_for(*first, What::met, 1);
  ASSERT_TRUE(met);
  EXPECT_EQ(met->incarnation, 5u);
  ASSERT_TRUE(wait_for(*second, What::met, 0));
  const Pending receive = first->receive(1, 1, bytes(data));
  finish(*second, second->send(0, 1, bytes(sent)));
  finish(*first, receive);
  EXPECT_EQ(data, sent);
}

TEST(Mesh, workersBeyondTheFirstJoinLater) {
  MeshRun run(2);
  const auto first = run.make(0), second = run.make(1);
  const int rank = mesh::reserve_ranks(run.options(0).store_address(), 1).at(0);
  EXPECT_EQ(rank, 2);
  const auto third = run.make(rank);
  EXPECT_EQ(third->size(), 2);
  ASSERT_TRUE(wait_for(*second, What::met, rank));
  const Words sent = words(1, 2, 1, 100000);
  Words data(sent.size());
  const Pending receive = second->receive(rank, kMaximalLongTag, bytes(data));
  finish(*third, third->send(1, kMaximalLongTag, bytes(sent)));
  finish(*second, receive);
  EXPECT_EQ(data, sent);
  finish(*first, [&] {
    const auto barrier = second->barrier();
    auto own = first->barrier();
    finish(*second, barrier);
    return own;
  }());
}

TEST(Mesh, workersGoOnWithoutTheirStore) {
  auto run = std::make_unique<MeshRun>(2);
  const auto first = run->make(0), second = run->make(1);
  ASSERT_TRUE(wait_for(*first, What::met, 1) && wait_for(*second, What::met, 0));
  run.reset();
  second->begin_again(2);
  ASSERT_TRUE(wait_for(*first, What::met, 1));
  EXPECT_EQ(second->incarnation(), 2u);
}

// ---- admission ----

TEST(Mesh, aWorkerWithAnotherSecretIsNotRegistered) {
  const MeshRun run(2), other(2);
  auto options = run.options(1);
  options.secret = other.secret();
  EXPECT_EQ(test::code_of([&] { (void)mesh::make_engine(options); }), ErrorCode::bad_input);
  options.secret = "short";
  EXPECT_EQ(test::code_of([&] { (void)mesh::make_engine(options); }), ErrorCode::bad_input);
  EXPECT_TRUE(run.store().book().empty());
}

// A flood of strangers can close a worker's connection with the store: that is no answer.
TEST(Mesh, aStoreThatClosesTheConnectionIsAskedAgain) {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  mesh::StoreOptions options;
  options.secret = mesh::make_secret();
  options.port = acceptor.local_endpoint().port();
  std::optional<mesh::Store> store;
  std::thread closes_one([&] {
    {
      std::array<std::byte, mesh::kHelloBytes> hello;
      auto socket = acceptor.accept();
      asio::read(socket, asio::buffer(hello));
    }
    acceptor.close();
    store.emplace(options);
  });
  const mesh::StoreAddress address{"127.0.0.1:" + std::to_string(options.port), options.secret, Duration(60)};
  EXPECT_EQ(mesh::register_worker(address, 0, "127.0.0.1:1").incarnation, 1u);
  closes_one.join();
}

TEST(Mesh, aStoreThatSaysNothingIsNamedInWordsOfTheUser) {
  asio::io_context io;
  asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  const std::string address = "127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  try {
    (void)mesh::read_book({address, mesh::make_secret(), Duration(1)});
    FAIL() << "a store that says nothing has answered";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "the run's store at " + address + " does not answer: it has said nothing for 2 s");
  }
}

// ---- who may begin ----

TEST(Mesh, aRunThatHasTrainedBeginsAgainOnlyFromACheckpointAndOnceItIsOverNotAtAll) {
  const MeshRun run(2);
  const mesh::StoreAddress store = run.options(0).store_address();
  EXPECT_FALSE(mesh::refusal_to_begin(store, 1, 0));
  mesh::tell_progress(store, 0);
  const auto without_a_model = mesh::refusal_to_begin(store, 1, 0);
  ASSERT_TRUE(without_a_model);
  EXPECT_NE(without_a_model->find("load a checkpoint"), std::string::npos) << *without_a_model;
  EXPECT_FALSE(mesh::refusal_to_begin(store, 1, 200));
  mesh::tell_end(store, 0);
  EXPECT_TRUE(run.store().is_over());
  const auto late = mesh::refusal_to_begin(store, 1, 200);
  ASSERT_TRUE(late);
  EXPECT_NE(late->find("the run is over"), std::string::npos) << *late;
  EXPECT_EQ(test::code_of([&] { (void)run.make(1); }), ErrorCode::unavailable);
}

// ---- withdrawing ----

class MeshWithdraw : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Engine> make(int rank) const {
    auto options = run_.options(rank);
    options.reads_memory = GetParam();
    return mesh::make_engine(options);
  }
  void SetUp() override { ASSERT_TRUE(wait_for(*first_, What::met, 1) && wait_for(*second_, What::met, 0)); }

  // What is sent next arrives, whatever was withdrawn before.
  void expect_to_work(Tag tag) {
    const Words sent = words(3, 0, 1, 50000);
    Words data(sent.size());
    const Pending receive = second_->receive(0, tag, bytes(data));
    finish(*first_, first_->send(1, tag, bytes(sent)));
    finish(*second_, receive);
    EXPECT_EQ(data, sent);
  }

  MeshRun run_{2};
  std::unique_ptr<Engine> first_ = make(0), second_ = make(1);
};

TEST_P(MeshWithdraw, aSendThatNobodyWantsIsTakenBack) {
  for (const std::size_t size : {std::size_t{10}, std::size_t{50000}}) {
    const Words sent(size, 1);
    const Pending send = first_->send(1, 5, bytes(sent));
    EXPECT_FALSE(first_->wait_until([&] { return send->done(); }, first_->now() + Duration(0.02)));
    send->withdraw();
    ASSERT_TRUE(settles(*first_, *send));
    EXPECT_TRUE(send->done());
    expect_to_work(5);
  }
}

TEST_P(MeshWithdraw, aReceiveThatNothingCameForIsTakenBack) {
  Words data(50000);
  const Pending receive = second_->receive(0, 5, bytes(data));
  receive->withdraw();
  ASSERT_TRUE(settles(*second_, *receive, Duration(1)));
  EXPECT_TRUE(receive->done());
  EXPECT_EQ(data, Words(50000));
  expect_to_work(5);
}

TEST_P(MeshWithdraw, sendsAndReceivesThatAreUnderWayEndSoon) {
  for (int delay_us = 0; delay_us < 3000; delay_us += 300) {
    auto sent = std::make_unique<Words>(kLong, 1), data = std::make_unique<Words>(kLong);
    Pending send = first_->send(1, 5, bytes(std::as_const(*sent)));
    Pending receive = second_->receive(0, 5, bytes(*data));
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    const bool is_receive = delay_us % 600 != 0;
    Engine& engine = is_receive ? *second_ : *first_;
    Operation& withdrawn = is_receive ? *receive : *send;
    withdrawn.withdraw();
    ASSERT_TRUE(engine.wait_until([&] { return withdrawn.done(); }, in_good_time(engine)));
    (is_receive ? data : sent).reset();  // nobody touches it any more
    receive.reset();
    send.reset();
    expect_to_work(6 + delay_us);
  }
}

TEST_P(MeshWithdraw, droppedOperationsAreWithdrawn) {
  for (int round = 0; round < 20; ++round) {
    const auto size = static_cast<std::size_t>(round % 2 ? 10 : 1 << 20);
    {
      const auto sent = std::make_unique<Words>(size, 1);
      const auto data = std::make_unique<Words>(size);
      const Pending unmatched = first_->send(1, 1, bytes(std::as_const(*sent)));
      const Pending unfilled = first_->receive(1, 2, bytes(*data));
      const Pending send = first_->send(1, 3, bytes(std::as_const(*sent)));
      const Pending receive = second_->receive(0, 3, bytes(*data));
    }
    expect_to_work(10 + round);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, MeshWithdraw, testing::Bool(),
                         [](const auto& info) { return info.param ? "memory" : "connection"; });

// ---- size ----

std::size_t threads_of_this_process() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

TEST(Mesh, sixtyFourWorkersMeetWithFewThreadsEach) {
  constexpr int kWorkers = 64;
  MeshRun run(kWorkers, Duration(60));  // they share few cores
  const std::size_t before = threads_of_this_process();
  std::vector<std::unique_ptr<Engine>> engines;
  for (int rank = 0; rank < kWorkers; ++rank) engines.push_back(run.make(rank));
  for (auto& engine : engines) ASSERT_NO_FATAL_FAILURE(meet(*engine, kWorkers - 1));
  const Words one = words(1, 0, 0, 30000);
  std::vector<Words> data(kWorkers, Words(one.size()));
  std::vector<Pending> pending;
  for (int rank = 0; rank < kWorkers; ++rank) {
    pending.push_back(engines[static_cast<std::size_t>(rank)]->receive((rank + 1) % kWorkers, 1,
                                                                       bytes(data[static_cast<std::size_t>(rank)])));
    pending.push_back(engines[static_cast<std::size_t>(rank)]->send((rank + kWorkers - 1) % kWorkers, 1, bytes(one)));
    pending.push_back(engines[static_cast<std::size_t>(rank)]->barrier());
  }
  for (std::size_t i = 0; i < pending.size(); ++i) finish(*engines[i / 3], pending[i]);
  for (const Words& each : data) EXPECT_EQ(each, one);
  EXPECT_LE(threads_of_this_process() - before, 2 * kWorkers);
}

}  // namespace
}  // namespace flockstep::engines::conformance
