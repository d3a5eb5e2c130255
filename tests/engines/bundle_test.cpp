#include "engines/sim/bundle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace flockstep::engines::sim {
namespace {

std::vector<int> nodes_of(int hosts, int per_node) {
  std::vector<int> nodes;
  for (int host = 0; host < hosts; ++host) nodes.push_back(host / per_node);
  return nodes;
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

TEST(Bundle, inEveryExchangeEachWorkerGetsAsManyBytesAsItSends) {
  for (const int members : {6, 7, 31, 32, 100}) {
    std::vector<int> group;
    for (int i = 0; i < members; ++i) group.push_back(3 * i + i % 2);  // somewhere among more workers
    for (const std::uint64_t turn : {0, 1, 29, 8192, 123456}) {
      std::map<int, double> received;
      for (const int from : group) {
        const auto shipments = shipments_of(from, 400, to_all_others(from, group, 7), turn, {});
        ASSERT_EQ(shipments.size(), 1u);
        EXPECT_EQ(shipments[0].parcels.size(), group.size() - 1);
        EXPECT_EQ(shipments[0].flows.size(), static_cast<std::size_t>(kFlows));
        for (const auto& flow : shipments[0].flows) {
          EXPECT_NE(flow.to, from);
          received[flow.to] += flow.bytes;
        }
      }
      for (const int member : group) EXPECT_DOUBLE_EQ(received[member], 7.0 * (members - 1)) << members << " " << turn;
    }
  }
}

TEST(Bundle, whatStaysInANodeAndWhatLeavesItDoNotStandForEachOther) {
  constexpr int kHosts = 64, kPerNode = 8;
  const auto nodes = nodes_of(kHosts, kPerNode);
  std::vector<int> all(kHosts);
  std::iota(all.begin(), all.end(), 0);
  for (const std::uint64_t turn : {0, 3, 50}) {
    std::map<int, double> received_inside, received_outside;
    for (const int from : all) {
      for (const auto& [flows, which] : shipments_of(from, kHosts, to_all_others(from, all, 5), turn, nodes)) {
        const auto is_inside = [&](int peer) { return peer / kPerNode == from / kPerNode; };
        const bool inside = is_inside(all[which[0] < static_cast<std::size_t>(from) ? which[0] : which[0] + 1]);
        EXPECT_EQ(which.size(), inside ? kPerNode - 1u : kHosts - kPerNode);
        for (const auto& flow : flows) {
          EXPECT_EQ(is_inside(flow.to), inside);
          (inside ? received_inside : received_outside)[flow.to] += flow.bytes;
        }
      }
    }
    for (const int rank : all) {
      EXPECT_DOUBLE_EQ(received_inside[rank], 5.0 * (kPerNode - 1));
      EXPECT_DOUBLE_EQ(received_outside[rank], 5.0 * (kHosts - kPerNode)) << rank << " " << turn;
    }
  }
}

TEST(Bundle, nodesThatLieAnyhowAndNodesOfDifferentSizesAreKeptApartToo) {
  const std::vector<int> nodes{0, 1, 0, 1, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0};
  const int hosts = static_cast<int>(nodes.size());
  std::vector<int> all(nodes.size());
  std::iota(all.begin(), all.end(), 0);
  for (const int from : all) {
    const auto parcels = to_all_others(from, all, 5);
    const auto shipments = shipments_of(from, hosts, parcels, 7, nodes);
    EXPECT_DOUBLE_EQ(bytes_of(shipments), 5.0 * (hosts - 1));
    std::vector<std::size_t> carried;
    for (const auto& [flows, which] : shipments) {
      const bool inside = in_one_node(nodes, from, parcels[which[0]].to);
      for (const auto index : which) {
        EXPECT_EQ(in_one_node(nodes, from, parcels[index].to), inside);
        carried.push_back(index);
      }
      for (const auto& flow : flows) EXPECT_EQ(in_one_node(nodes, from, flow.to), inside);
    }
    std::ranges::sort(carried);
    for (std::size_t i = 0; i < parcels.size(); ++i) EXPECT_EQ(carried.at(i), i);
  }
}

TEST(Bundle, aSmallMessageIsNotInABundleWithALargeOne) {
  std::vector<int> all(20);
  std::iota(all.begin(), all.end(), 0);
  auto parcels = to_all_others(0, all, 100);
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
