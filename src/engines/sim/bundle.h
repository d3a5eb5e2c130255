// The few flows that stand for the many messages that one worker sends at one instant, in a collective or not.
//
// Up to kExactPeers peers there is a flow for each message. With more, kFlows flows of equal size carry together what
// all peers get, to peers that lie evenly spread around the ring of ranks and, by `turn`, elsewhere each time. Workers
// that exchange with each other at once have peers at the same distances, so that every link has as many flows in as
// out. On a star with messages of equal size this takes the same time as a flow for each: there the flows of a worker
// share its link fairly and end together, at the end of their total, and no receiving link is ever asked for more than
// it has. The cost is O(P) instead of O(P^2); few flows also keep workers that started at different times apart in the
// solver, which makes two eight times as fast as four with 1,024 workers. What is lost: beside other traffic on its
// link a bundle has the weight of kFlows messages; and where the receivers' links are what limits, their load is evened
// out, so that the time is a lower bound.
//
// Messages that stay in a node and messages that leave it never stand for each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flockstep::engines::sim {

struct Flow {
  int from;
  int to;        // another host: what stays at home needs no network
  double bytes;  // as the network believes
};

inline constexpr int kExactPeers = 4, kFlows = 2;

// The node of each host; empty where every host is a node of its own.
using Nodes = std::span<const int>;

inline bool in_one_node(Nodes nodes, int one, int other) {
  return !nodes.empty() && nodes[static_cast<std::size_t>(one)] == nodes[static_cast<std::size_t>(other)];
}

// `peers` are all that get something, in the order of the ring from the sender's successor on. The flows carry `bytes`
// to those of them that are outside the sender's node, or inside it if all are.
std::vector<Flow> bundle(int from, std::span<const int> peers, double bytes, std::uint64_t turn, Nodes nodes);

struct Parcel {
  int to;
  double bytes;
};
struct Shipment {
  std::vector<Flow> flows;
  std::vector<std::size_t> parcels;  // which: they arrive when all of the flows have
};
// What carries the parcels that one of `hosts` hosts sends to others at one instant. Only those that are alike travel
// in a bundle: of one none is more than twice as large as another, so that a small one does not wait for a large one.
std::vector<Shipment> shipments_of(int from, int hosts, std::span<const Parcel> parcels, std::uint64_t turn,
                                   Nodes nodes);

}  // namespace flockstep::engines::sim
