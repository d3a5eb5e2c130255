#include "engines/sim/collective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "engines/sim/world.h"

namespace flockstep::engines::sim {
namespace {

std::string_view name_of(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::all_to_all: return "an all-to-all";
    case Collective::Kind::all_gather: return "an all-gather";
    case Collective::Kind::broadcast: return "a broadcast";
    case Collective::Kind::barrier: return "a barrier";
  }
  return "";
}

}  // namespace

Collective::Collective(SimWorld& world, std::uint64_t sequence)
    : world_(world), sequence_(sequence), calls_(static_cast<std::size_t>(world.size())) {}

bool Collective::joined_by_all() const { return joined_.size() == static_cast<std::size_t>(world_.size()); }

std::vector<int> Collective::missing() const {
  std::vector<int> missing;
  for (int rank = 0; rank < world_.size(); ++rank)
    if (std::ranges::find(joined_, rank) == joined_.end()) missing.push_back(rank);
  return missing;
}

void Collective::join(int rank, Call call) {
  check_kind(rank, call);
  joined_.push_back(rank);
  const auto& mine = calls_[static_cast<std::size_t>(rank)] = std::move(call);
  if (joined_by_all()) copy();  // before any switch: afterwards the world may be broken, and memory given back
  if (kind_ != Kind::broadcast) {
    start_flows(rank, static_cast<double>(mine.bytes_for_all), &mine.send);
  } else if (rank == root_ || scattered_) {
    start_half_of_broadcast(rank);
  }
  if (joined_by_all()) calls_ = {};
  advance();
}

void Collective::leave(int rank) {
  if (done_) return;
  world_.fail(
      Error(ErrorCode::peer_lost,
            fmt::format("worker {} dropped collective operation {} before it was done", rank, sequence_), "sim"),
      rank);
}

void Collective::check_kind(int rank, const Call& call) {
  if (joined_.empty()) {
    kind_ = call.kind;
    traffic_ = call.traffic;
    root_ = call.root;
    length_ = call.bytes_for_all;
  } else if (call.kind != kind_) {
    mismatch(
        fmt::format("worker {} issued {} where worker {} issued {} (collective operation {}); issue the same "
                    "operations in the same order on every worker",
                    rank, name_of(call.kind), joined_.front(), name_of(kind_), sequence_));
  } else if (call.root != root_) {
    mismatch(fmt::format("worker {} broadcasts from {} where worker {} broadcasts from {} (collective operation {})",
                         rank, call.root, joined_.front(), root_, sequence_));
  }
}

void Collective::copy() {
  if (kind_ == Kind::barrier) return;
  for (std::size_t to = 0; to < calls_.size(); ++to) {
    for (std::size_t from = 0; from < calls_.size(); ++from) {
      if (from == to) continue;
      const auto source = calls_[from].send[to];
      const auto target = calls_[to].receive[from];
      if (source.size() != target.size())
        mismatch(
            fmt::format("worker {} sends {} bytes to worker {}, which expects {} (collective operation {}); pass "
                        "blocks of the same size on both sides",
                        from, source.size(), to, target.size(), sequence_));
      if (!source.empty()) std::memcpy(target.data(), source.data(), source.size());
    }
  }
}

std::vector<Flow> Collective::flows_of(int rank, double bytes, const Blocks<const std::byte>* blocks) const {
  const auto peers = world_.peers(rank);
  const auto nodes = world_.nodes();
  const auto bytes_for = [&](int to) {
    const bool known = blocks && blocks->count() > 0;
    return known ? static_cast<double>((*blocks)[static_cast<std::size_t>(to)].size())
                 : bytes / static_cast<double>(peers.size());
  };
  std::vector<int> inside;
  double bytes_inside = 0;
  for (const int peer : nodes.empty() ? std::span<const int>() : peers) {
    if (!in_one_node(nodes, rank, peer)) continue;
    inside.push_back(peer);
    bytes_inside += bytes_for(peer);
  }
  std::vector<Flow> flows;
  const auto add = [&](std::span<const int> ring, bool is_inside, std::size_t count, double total) {
    if (count == 0) return;
    if (count > kExactPeers) {
      const double simulated = world_.simulated_bytes(world_.pretended(total, traffic_), static_cast<double>(count));
      std::ranges::copy(bundle(rank, ring, simulated, sequence_, nodes), std::back_inserter(flows));
      return;
    }
    for (const int to : ring)
      if (in_one_node(nodes, rank, to) == is_inside)
        flows.push_back({rank, to, world_.simulated_bytes(world_.pretended(bytes_for(to), traffic_))});
  };
  add(inside, true, inside.size(), bytes_inside);
  add(peers, false, peers.size() - inside.size(), bytes - bytes_inside);
  return flows;
}

void Collective::start_flows(int rank, double bytes, const Blocks<const std::byte>* blocks) {
  const auto flows = flows_of(rank, bytes, blocks);
  flows_under_way_ += static_cast<int>(flows.size());
  world_.simulator().start(flows, [self = shared_from_this()] {
    --self->flows_under_way_;
    self->advance();
  });
}

void Collective::start_half_of_broadcast(int rank) {
  start_flows(rank, static_cast<double>(length_) * (world_.size() - 1) / world_.size(), nullptr);
}

void Collective::advance() {
  if (flows_under_way_ > 0 || done_ || world_.is_broken()) return;
  if (kind_ == Kind::broadcast && !scattered_) {
    if (std::find(joined_.begin(), joined_.end(), root_) == joined_.end()) return;
    scattered_ = true;  // before the switches below: who joins meanwhile starts its own half
    for (const int rank : std::vector(joined_)) start_half_of_broadcast(rank);
    if (flows_under_way_ > 0) return;
  }
  if (!joined_by_all()) return;
  done_ = true;
  Simulator::at_once([this] {
    for (int rank = 0; rank < world_.size(); ++rank) world_.bell(rank).ring();
  });
}

void Collective::mismatch(const std::string& sentence) {
  world_.fail(Error(ErrorCode::mismatch, sentence, "sim"), -1);
  world_.throw_error();
}

}  // namespace flockstep::engines::sim
