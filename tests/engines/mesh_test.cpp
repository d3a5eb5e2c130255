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

// Silence would be noticed after ten minutes.
TEST_F(MeshLoss, aKilledPeerIsLostThoughItHasNotBeenSilentForLong) {
  MeshRun run(2, Duration(600));
  WorkerProcess other(run.options(1), "exchanges");
  EXPECT_NE(exchange_until_lost(run, [&] { other.signal(SIGKILL); }), "");
}

TEST_F(MeshLoss, aStoppedPeerIsLostThoughDataAreUnderWay) {
  MeshRun run(2, Duration(1));
  WorkerProcess other(run.options(1), "exchanges");
  EXPECT_EQ(exchange_until_lost(run, [&] { other.signal(SIGSTOP); }), "worker 1 has been silent for 1 s");
}

TEST_F(MeshLoss, aStoppedPeerThatSendsNothingIsLostAndIsMetAgainWhenItGoesOn) {
  MeshRun run(2, Duration(0.5));
  WorkerProcess other(run.options(1), "idles");
  const auto engine = run.make(0);
  ASSERT_TRUE(wait_for(*engine, What::met, 1));
  other.signal(SIGSTOP);
  const auto lost = wait_for(*engine, What::lost, 1);
  ASSERT_TRUE(lost);
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
  Words never(10);
  const Pending from_second = first->receive(1, 1, bytes(never));
  second.signal(SIGKILL), third.signal(SIGKILL);
  expect_transfer(*first, *fourth, 9, kLong);
  ASSERT_TRUE(settles(*first, *from_second));
  EXPECT_EQ(from_second->gone(), 1);
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

TEST(Mesh, workersBeyondTheFirstJoinLater) {
  MeshRun run(2);
  const auto first = run.make(0), second = run.make(1);
  const int rank = mesh::reserve_ranks(run.options(0).store_address(), 1).at(0);
  EXPECT_EQ(rank, 2);
  const auto third = run.make(rank);
  EXPECT_EQ(third->size(), 2);
  ASSERT_TRUE(wait_for(*second, What::met, rank));
  expect_transfer(*third, *second, kMaximalLongTag);
  const auto barrier = second->barrier(), own = first->barrier();
  finish(*second, barrier);
  finish(*first, own);
}

TEST(Mesh, workersBeginAgainAlsoWithoutTheirStore) {
  auto run = std::make_unique<MeshRun>(2);
  const auto first = run->make(0), second = run->make(1);
  ASSERT_TRUE(wait_for(*first, What::met, 1) && wait_for(*second, What::met, 0));
  const Words sent(kLong);
  const Pending send = second->send(0, 2, bytes(sent));
  second->begin_again(5);
  EXPECT_EQ(run->store().book().at(1).incarnation, 5u);
  ASSERT_TRUE(settles(*second, *send));
  EXPECT_EQ(send->gone(), 0);
  ASSERT_TRUE(wait_for(*first, What::met, 1) && wait_for(*second, What::met, 0));
  run.reset();
  second->begin_again(6);
  ASSERT_TRUE(wait_for(*first, What::met, 1));
  EXPECT_EQ(second->incarnation(), 6u);
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
  EXPECT_EQ(test::refusal(ErrorCode::unavailable,
                          [&] {
                            (void)mesh::read_book({address, mesh::make_secret(), Duration(1)});
                          }),
            "the run's store at " + address + " does not answer: it has said nothing for 2 s");
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

  MeshRun run_{2};
  std::unique_ptr<Engine> first_ = make(0), second_ = make(1);
};

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
    expect_transfer(*first_, *second_, 6 + delay_us);
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
    expect_transfer(*first_, *second_, 10 + round);
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
  std::vector<Pending> barriers;
  for (const auto& engine : engines) barriers.push_back(engine->barrier());
  for (std::size_t i = 0; i < kWorkers; ++i) {
    expect_transfer(*engines[(i + 1) % kWorkers], *engines[i], 1, 30000);
    finish(*engines[i], barriers[i]);
  }
  EXPECT_LE(threads_of_this_process() - before, 2 * kWorkers);
}

}  // namespace
}  // namespace flockstep::engines::conformance
