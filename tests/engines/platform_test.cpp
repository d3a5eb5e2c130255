// How long messages take on the presets and on platform files, against closed forms. Every test is a simulation, so
// each needs a process of its own.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "engines/sim/presets.h"
#include "engines/sim/simulator.h"
#include "support/refusal.h"

namespace flockstep::engines::sim {
namespace {

constexpr double kBytes = 1e8;

SimOptions on(const std::string& platform) {
  SimOptions options;
  options.platform = platform;
  return options;
}

Tree tree_of(const std::string& name) { return find_preset(name)->tree; }

double seconds_for(double bytes, double gbps) { return bytes * 8 / (gbps * 1e9); }

class Network {
 public:
  Network(int workers, const SimOptions& options) : simulator_(workers, options) {}

  Simulator& simulator() { return simulator_; }

  void run(const std::function<void()>& body) {
    simulator_.spawn(0, "body", body);
    simulator_.run();
  }

  // To be called by the body. When each of these has arrived that start together now.
  std::vector<double> times(const std::vector<Flow>& flows) {
    std::vector<double> times(flows.size());
    const double start = Simulator::now();
    int under_way = static_cast<int>(flows.size());
    for (std::size_t i = 0; i < flows.size(); ++i) {
      simulator_.start(std::span(flows).subspan(i, 1), [&times, &under_way, i, start] {
        times[i] = Simulator::now() - start;
        --under_way;
      });
    }
    while (under_way > 0) Simulator::sleep(1e-3);
    return times;
  }

  double time(const Flow& flow) { return times({flow})[0]; }

 private:
  Simulator simulator_;
};

void expect_near(double expected, double seen, const std::string& what) {
  EXPECT_NEAR(seen, expected, 1e-6 * expected + 2 * kTick_s) << what;
}

class Presets : public testing::TestWithParam<const char*> {};

TEST_P(Presets, haveTheLatenciesOfTheirLevels) {
  const Tree tree = tree_of(GetParam());
  Network network(4096, on(GetParam()));
  network.run([&] {
    for (const auto& [from, to, links_between_switches] :
         std::vector<std::tuple<int, int, int>>{{0, tree.workers_per_switch - 1, 0},
                                                {tree.workers_per_switch, tree.workers_per_switch - 1, 2},
                                                {3, tree.workers_per_pod - 1, 2},
                                                {tree.workers_per_pod, tree.workers_per_pod - 1, 4},
                                                {4095, 0, 4}}) {
      const double latency = 1e-6 * (2 * tree.latency_us + links_between_switches * tree.core_latency_us);
      const double expected = latency + seconds_for(kBytes, tree.bandwidth_gbps);
      expect_near(expected, network.time({from, to, kBytes}), fmt::format("{} to {}", from, to));
      expect_near(expected, network.simulator().time_alone({from, to, kBytes}), fmt::format("{} to {}", from, to));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Platform, Presets, testing::Values("ethernet-10g", "ethernet-100g", "aries", "nvlink-node"));

// Everybody sends to the one so many places on.
void expect_shifts_at_full_bandwidth(int workers, const SimOptions& options, double gbps, double most_latency_s) {
  Network network(workers, options);
  network.run([&] {
    for (int distance = 1; distance < workers; distance += std::max(1, workers / 7)) {
      std::vector<Flow> flows;
      for (int i = 0; i < workers; ++i) flows.push_back({i, (i + distance) % workers, kBytes});
      for (const double time : network.times(flows)) {
        EXPECT_GE(time, seconds_for(kBytes, gbps)) << distance;
        EXPECT_LE(time, 1.000001 * seconds_for(kBytes, gbps) + most_latency_s) << distance;
      }
    }
  });
}

struct Shift {
  int workers;
  const char* platform;
  double gbps, most_latency_s;
};

class Permutations : public testing::TestWithParam<Shift> {};

TEST_P(Permutations, haveFullBandwidth) {
  const auto& [workers, platform, gbps, most_latency_s] = GetParam();
  expect_shifts_at_full_bandwidth(workers, on(platform), gbps, most_latency_s);
}

INSTANTIATE_TEST_SUITE_P(Platform, Permutations,
                         testing::Values(Shift{7, "ethernet-10g", 10, 25e-6}, Shift{100, "ethernet-100g", 100, 6e-6},
                                         Shift{1024, "aries", 80, 2e-6}, Shift{1500, "ethernet-10g", 10, 25e-6}));

std::string written(const std::string& name, const std::string& content) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                      << "<platform version=\"4.1\">\n"
                      << content << "</platform>\n";
  return path;
}

// The oracle for leaving out the core of a tree: SimGrid's own has every link of it, with as many up as down.
TEST(Platform, allLinksOfSimGridsFatTreeGiveThePermutationsTheSameTimes) {
  const std::string path =
      written("fat_tree.xml",
              "<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-63\" speed=\"1Gf\" bw=\"1.25GBps\" lat=\"1us\" "
              "topology=\"FAT_TREE\" topo_parameters=\"2;8,8;1,8;1,1\" sharing_policy=\"SPLITDUPLEX\"/>");
  expect_shifts_at_full_bandwidth(64, on(path), 10, 5e-6);
}

TEST(Platform, messagesInsideANodeDoNotMeetThoseThatLeaveIt) {
  const Tree tree = tree_of("nvlink-node");
  Network network(24, on("nvlink-node"));
  EXPECT_EQ(network.simulator().node_of(7), network.simulator().node_of(0));
  EXPECT_NE(network.simulator().node_of(8), network.simulator().node_of(7));
  EXPECT_EQ(network.simulator().memory_gbytes_s(), tree.memory_gbytes_s);
  network.run([&] {
    const auto times = network.times({{0, 1, kBytes}, {0, 8, kBytes}, {2, 1, kBytes}, {9, 0, kBytes}});
    const double inside = seconds_for(kBytes, tree.node_bandwidth_gbps), outside = seconds_for(kBytes, 400);
    expect_near(2e-6 * tree.node_latency_us + 2 * inside, times[0], "two that meet inside");
    expect_near(2e-6 * tree.latency_us + outside, times[1], "one that leaves");
    expect_near(2e-6 * tree.latency_us + outside, times[3], "one that comes");
  });
}

TEST(Platform, nearAndFarMessagesShareALinkEqually) {
  Network network(64, on("ethernet-10g"));
  network.run([&] {
    const auto times = network.times({{0, 1, kBytes}, {0, 63, kBytes}});
    const double alone = 2e-6;  // the far one sets out so much later
    expect_near(20e-6 + 2 * seconds_for(kBytes, 10) - alone, times[0], "near");
    expect_near(20e-6 + 2 * seconds_for(kBytes, 10), times[1], "far");
  });
}

TEST(Platform, aStarHasTheNumbersThatAreGiven) {
  SimOptions options;
  options.latency_us = 30;
  options.bandwidth_gbps = 2;
  Network network(5, options);
  EXPECT_NE(network.simulator().node_of(1), network.simulator().node_of(0));
  EXPECT_EQ(network.simulator().memory_gbytes_s(), 10);
  network.run([&] { expect_near(60e-6 + seconds_for(kBytes, 2), network.time({1, 4, kBytes}), "alone"); });
}

// Two sites with a slow line between them; the names are not in the order of the alphabet.
std::string two_sites() {
  std::string text = "<zone id=\"world\" routing=\"Full\"><prop id=\"flockstep.memory_gbytes_s\" value=\"33\"/>\n";
  for (const char* site : {"a", "b"}) {
    const std::string radical = *site == 'a' ? "9-10" : "11-12";
    text += fmt::format(
        "<cluster id=\"{0}\" prefix=\"host-\" suffix=\"\" radical=\"{1}\" speed=\"1Gf\" bw=\"1GBps\" lat=\"5us\" "
        "router_id=\"router_{0}\"/>\n",
        site, radical);
  }
  return text +
         "<link id=\"line\" bandwidth=\"100MBps\" latency=\"10ms\"/>\n"
         "<zoneRoute src=\"a\" dst=\"b\" gw_src=\"router_a\" gw_dst=\"router_b\"><link_ctn id=\"line\"/></zoneRoute>\n"
         "</zone>\n";
}

TEST(Platform, workersRunOnTheHostsOfAFileInTheNaturalOrderOfTheirNames) {
  Network network(3, on(written("two_sites.xml", two_sites())));
  EXPECT_EQ(network.simulator().memory_gbytes_s(), 33);
  EXPECT_EQ(network.simulator().node_of(0), network.simulator().node_of(1));
  EXPECT_NE(network.simulator().node_of(1), network.simulator().node_of(2));
  network.run([&] {
    expect_near(10e-6 + kBytes / 1e9, network.time({0, 1, kBytes}), "host-9 to host-10");
    expect_near(10e-3 + 10e-6 + kBytes / 1e8, network.time({1, 2, kBytes}), "host-10 to host-11");
    expect_near(10e-3 + 10e-6 + kBytes / 1e8, network.simulator().time_alone({1, 2, kBytes}), "the same told");
  });
}

TEST(Platform, whatBreaksSimGridIsAnErrorAndLeavesTheProcessUsable) {
  for (const auto& [content, sentence] :
       std::vector<std::pair<std::string, std::string>>{{"", "cannot use"},  // SimGrid crashes over this one
                                                        {"<zone id=\"z\" routing=\"Silly\"/>", "Not a valid model!"},
                                                        {"<zone id=\"z\" routing=\"Full\"/>", "it has no hosts"}}) {
    const std::string said =
        test::refusal(ErrorCode::bad_file, [&] { Simulator(2, on(written("broken.xml", content))); });
    EXPECT_NE(said.find(sentence), std::string::npos) << said;
  }
  Network network(2, on("aries"));
  network.run([&] { EXPECT_GT(network.time({0, 1, 1}), 0); });
}

}  // namespace
}  // namespace flockstep::engines::sim
