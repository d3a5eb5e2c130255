#include "engines/sim/bundle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace flockstep::engines::sim {
namespace {

std::vector<int> up_to(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<Parcel> to_all_others(int from, const std::vector<int>& members, double bytes) {
  std::vector<Parcel> parcels;
  for (const int member : members)
    if (member != from) parcels.push_back({member, bytes});
  return parcels;
}

double bytes_of(const std::vector<Shipment>& shipments) {
  double bytes = 0;
  for (const auto& shipment : shipments)
    for (const auto& flow : shipment.flows) bytes += flow.bytes;
  return bytes;
}

TEST(Bundle, aFewPeersGetAFlowForEachMessage) {
  const std::vector<Parcel> parcels{{3, 10}, {1, 10}, {3, 12}, {2, 10}};
  const auto shipments = shipments_of(0, 8, parcels, 5, {});
  ASSERT_EQ(shipments.size(), parcels.size());
  for (const auto& [flows, which] : shipments) {
    ASSERT_EQ(flows.size(), 1u);
    ASSERT_EQ(which.size(), 1u);
    EXPECT_EQ(flows[0].to, parcels[which[0]].to);
    EXPECT_EQ(flows[0].bytes, parcels[which[0]].bytes);
  }
}

// An exchange of equal blocks in a group of workers. Returns the bytes that each of them gets: inside nodes, and
// outside.
std::pair<std::map<int, double>, std::map<int, double>> received_in(const std::vector<int>& group, int hosts,
                                                                    std::uint64_t turn, const std::vector<int>& nodes) {
  std::map<int, double> received_inside, received_outside;
  for (const int from : group) {
    const std::vector<Parcel> parcels = to_all_others(from, group, 5);
    const auto shipments = shipments_of(from, hosts, parcels, turn, nodes);
    EXPECT_DOUBLE_EQ(bytes_of(shipments), 5.0 * static_cast<double>(group.size() - 1));
    std::vector<std::size_t> carried;
    for (const auto& [flows, which] : shipments) {
      const bool inside = in_one_node(nodes, from, parcels[which[0]].to);
      for (const auto index : which) {
        EXPECT_EQ(in_one_node(nodes, from, parcels[index].to), inside);
        carried.push_back(index);
      }
      for (const auto& flow : flows) {
        EXPECT_NE(flow.to, from);
        EXPECT_EQ(in_one_node(nodes, from, flow.to), inside);
        (inside ? received_inside : received_outside)[flow.to] += flow.bytes;
      }
    }
    std::ranges::sort(carried);
    EXPECT_EQ(carried.size(), parcels.size());
    for (std::size_t i = 0; i < carried.size(); ++i) EXPECT_EQ(carried[i], i);
  }
  return {received_inside, received_outside};
}

TEST(Bundle, inEveryExchangeEachWorkerGetsAsManyBytesAsItSends) {
  for (const int members : {6, 7, 31, 32, 100}) {
    std::vector<int> group;
    for (int i = 0; i < members; ++i) group.push_back(3 * i + i % 2);  // somewhere among more workers
    EXPECT_EQ(shipments_of(0, 400, to_all_others(0, group, 5), 0, {}).at(0).flows.size(),
              static_cast<std::size_t>(kFlows));
    for (const std::uint64_t turn : {0, 1, 29, 8192, 123456}) {
      auto received = received_in(group, 400, turn, {}).second;
      for (const int member : group) EXPECT_DOUBLE_EQ(received[member], 5.0 * (members - 1)) << members << " " << turn;
    }
  }
}

TEST(Bundle, whatStaysInANodeAndWhatLeavesItDoNotStandForEachOther) {
  constexpr int kHosts = 64, kPerNode = 8;
  std::vector<int> nodes;
  for (int host = 0; host < kHosts; ++host) nodes.push_back(host / kPerNode);
  for (const std::uint64_t turn : {0, 3, 50}) {
    auto [inside, outside] = received_in(up_to(kHosts), kHosts, turn, nodes);
    for (int rank = 0; rank < kHosts; ++rank) {
      EXPECT_DOUBLE_EQ(inside[rank], 5.0 * (kPerNode - 1));
      EXPECT_DOUBLE_EQ(outside[rank], 5.0 * (kHosts - kPerNode)) << rank << " " << turn;
    }
  }
  // Nodes that lie anyhow, and of different sizes.
  received_in(up_to(14), 14, 7, {0, 1, 0, 1, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0});
}

TEST(Bundle, aSmallMessageIsNotInABundleWithALargeOne) {
  auto parcels = to_all_others(0, up_to(20), 100);
  parcels[4].bytes = 1e6;
  parcels[9].bytes = 1;
  const auto shipments = shipments_of(0, 20, parcels, 0, {});
  ASSERT_EQ(shipments.size(), 3u);
  EXPECT_EQ(shipments[0].parcels, std::vector<std::size_t>{9});
  EXPECT_EQ(shipments[1].parcels.size(), 17u);
  EXPECT_EQ(shipments[2].parcels, std::vector<std::size_t>{4});
  EXPECT_DOUBLE_EQ(bytes_of(shipments), 1e6 + 1 + 1700);
}

}  // namespace
}  // namespace flockstep::engines::sim
