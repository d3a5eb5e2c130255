// The mesh engine between hosts: network namespaces on a bridge, whose links can be cut silently, slowed and disturbed.
// Needs the rights to make them, and skips its tests with the reason otherwise.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "mesh_run.h"

namespace flockstep::engines::conformance {
namespace {

using base::Duration;
using What = Control::What;

bool succeeds(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()) == 0; }

// Two hosts: this process's, at the bridge, and another one behind a link.
class MeshHosts : public MeshExchange {
 protected:
  void SetUp() override {
    const bool is_there = succeeds("ip netns add " + space_) &&
                          succeeds(fmt::format("ip link add {} type bridge", bridge_)) &&
                          succeeds(fmt::format("ip link add {} type veth peer name eth0 netns {}", link_, space_)) &&
                          succeeds(fmt::format("ip link set {} master {}", link_, bridge_)) &&
                          succeeds(fmt::format("ip addr add {}/24 dev {}", here_, bridge_)) &&
                          succeeds(fmt::format("ip link set {} up && ip link set {} up", link_, bridge_)) &&
                          succeeds(fmt::format("ip -n {} addr add {}/24 dev eth0", space_, there_)) &&
                          succeeds(fmt::format("ip -n {} link set eth0 up", space_));
    if (!is_there) GTEST_SKIP() << "network namespaces, bridges or veth pairs cannot be made here";
  }
  void TearDown() override {
    succeeds("ip link del " + link_);
    succeeds("ip link del " + bridge_);
    succeeds("ip netns del " + space_);
  }

  // The addresses and routes of both ends stay: frames vanish, and nobody is told.
  void cut() const { EXPECT_TRUE(succeeds(fmt::format("ip link set {} down", link_))); }
  void heal() const { EXPECT_TRUE(succeeds(fmt::format("ip link set {} up", link_))); }
  // In both directions. False where the kernel cannot.
  bool disturb(const std::string& how) const {
    return succeeds(fmt::format("tc qdisc add dev {} root {}", link_, how)) &&
           succeeds(fmt::format("tc -n {} qdisc add dev eth0 root {}", space_, how));
  }

  void expect_exchanges(MeshRun& run, int rounds) {
    auto options = run.options(0);
    options.reads_memory = false;
    const auto engine = mesh::make_engine(options);
    ASSERT_TRUE(wait_for(*engine, What::met, 1));
    const Words sent(kLong, 5);
    Words received(kLong);
    for (Tag tag = 0; tag < rounds; ++tag) {
      const Pending receive = engine->receive(1, tag, bytes(received)), send = engine->send(1, tag, bytes(sent));
      ASSERT_TRUE(settles(*engine, *receive, Duration(300)) && settles(*engine, *send, Duration(300)));
      ASSERT_TRUE(receive->done() && send->done());
      EXPECT_EQ(received, Words(kLong, 7));
    }
    EXPECT_FALSE(engine->take_control());  // nobody was lost
  }

  static constexpr Duration kHeartbeat{5};  // a process that a busy machine lets wait for a second is not lost
  static inline int count_ = 0;             // a namespace may live on for a moment
  // Addresses of this process, so that another one that tests the same, or was killed at it, has others.
  const std::string net_ = fmt::format("10.213.{}", getpid() % 250 + 1);
  const std::string here_ = net_ + ".1", there_ = net_ + ".2";
  const std::string name_ = fmt::format("{}x{}", getpid(), ++count_);
  const std::string space_ = "mesh" + name_, bridge_ = "mb" + name_, link_ = "ml" + name_;
};

TEST_F(MeshHosts, aPartitionIsALossAndThenAMeeting) {
  MeshRun run(2, kHeartbeat, here_);
  WorkerProcess other(run.options(1), "idles", space_);
  const auto engine = run.make(0);
  ASSERT_TRUE(wait_for(*engine, What::met, 1));
  cut();
  ASSERT_TRUE(wait_for(*engine, What::lost, 1));
  engine->sleep(kHeartbeat + Duration(1));  // the other end has given up, too
  heal();
  const auto met = wait_for(*engine, What::met, 1);
  ASSERT_TRUE(met);
  EXPECT_EQ(met->incarnation, 1u);
  engine->send_control(1, {});
  EXPECT_FALSE(wait_for(*engine, What::lost, 1, Duration(2)));
}

TEST_F(MeshHosts, aHostThatVanishesSilentlyIsLostThoughDataAreUnderWay) {
  MeshRun run(2, kHeartbeat, here_);
  WorkerProcess other(run.options(1), "exchanges", space_);
  EXPECT_EQ(exchange_until_lost(run, [&] { cut(); }), "worker 1 has been silent for 5 s");
}

TEST_F(MeshHosts, aSlowHostIsNotLost) {
  MeshRun run(2, kHeartbeat, here_);
  ASSERT_TRUE(disturb("tbf rate 100mbit burst 128kbit latency 100ms"));
  WorkerProcess other(run.options(1), "exchanges", space_);
  expect_exchanges(run, 2);
}

TEST_F(MeshHosts, lossAndDelayCostTimeOnly) {
  MeshRun run(2, kHeartbeat, here_);
  if (!disturb("netem delay 50ms loss 1%")) GTEST_SKIP() << "this kernel has no netem";
  WorkerProcess other(run.options(1), "exchanges", space_);
  expect_exchanges(run, 1);
}

}  // namespace
}  // namespace flockstep::engines::conformance
