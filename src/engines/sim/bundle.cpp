#include "engines/sim/bundle.h"

#include <algorithm>
#include <numeric>

namespace flockstep::engines::sim {

// Where nodes are runs of n ranks, a peer at a distance of n to P - n is outside whoever asks, and each worker has one
// of its own: so first these. Where nodes lie otherwise, the next outside is taken.
std::vector<Flow> bundle(int from, std::span<const int> peers, double bytes, std::uint64_t turn, Nodes nodes) {
  const auto is_inside = [&](int peer) { return in_one_node(nodes, from, peer); };
  const auto count = peers.size();
  auto inside = nodes.empty() ? 0 : static_cast<std::size_t>(std::ranges::count_if(peers, is_inside));
  const bool all_are_inside = inside == count;
  if (all_are_inside) inside = 0;
  const bool has_clear_distances = 2 * inside < count;
  const std::size_t first = has_clear_distances ? inside : 0, span = has_clear_distances ? count - 2 * inside : count;
  std::vector<Flow> flows;
  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    std::size_t position = first + (turn + flow * span / kFlows) % span;
    while (!all_are_inside && is_inside(peers[position])) position = (position + 1) % count;
    flows.push_back({from, peers[position], bytes / kFlows});
  }
  return flows;
}

namespace {

std::vector<int> ring_of(int from, int hosts, std::span<const Parcel> parcels, std::span<const std::size_t> which) {
  std::vector<int> peers;
  for (const auto index : which) peers.push_back(parcels[index].to);
  std::ranges::sort(peers, {}, [&](int peer) { return (peer - from + hosts) % hosts; });
  const auto repeated = std::ranges::unique(peers);
  peers.erase(repeated.begin(), repeated.end());
  return peers;
}

}  // namespace

std::vector<Shipment> shipments_of(int from, int hosts, std::span<const Parcel> parcels, std::uint64_t turn,
                                   Nodes nodes) {
  std::vector<std::size_t> order(parcels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size_of = [&](std::size_t index) { return parcels[index].bytes; };
  std::ranges::stable_sort(order, {}, size_of);
  std::vector<Shipment> shipments;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && size_of(order[end]) <= 2 * size_of(order[begin])) ++end;
    const auto alike = std::span(order).subspan(begin, end - begin);
    const auto ring = ring_of(from, hosts, parcels, alike);
    const auto outside = std::ranges::stable_partition(
        alike, [&](std::size_t index) { return in_one_node(nodes, from, parcels[index].to); });
    const std::span inside(alike.begin(), outside.begin());
    const auto add = [&](std::span<const std::size_t> some) {
      const auto peers = ring_of(from, hosts, parcels, some);
      if (peers.size() <= kExactPeers) {
        for (const auto index : some) shipments.push_back({{{from, parcels[index].to, parcels[index].bytes}}, {index}});
        return;
      }
      double bytes = 0;
      for (const auto index : some) bytes += parcels[index].bytes;
      const bool is_inside = in_one_node(nodes, from, peers.front());
      shipments.push_back(
          {bundle(from, is_inside ? peers : ring, bytes, turn, nodes), std::vector(some.begin(), some.end())});
    };
    add(inside);
    add(outside);
  }
  return shipments;
}

}  // namespace flockstep::engines::sim
