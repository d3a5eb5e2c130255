#include "engines/sim/collective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "engines/missing.h"
#include "engines/schedules.h"
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
    : world_(world),
      sequence_(sequence),
      joined_s_(static_cast<std::size_t>(world.size())),
      calls_(joined_s_.size()),
      is_done_(joined_s_.size()) {}

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
  joined_s_[static_cast<std::size_t>(rank)] = Simulator::now();
  calls_[static_cast<std::size_t>(rank)] = std::move(call);
  if (joined_by_all()) copy();  // before any switch: afterwards the world may be broken, and memory given back
  start_flows_of(rank);
  if (joined_by_all()) calls_ = {};
  advance();
}

bool Collective::is_in_waves() const { return kind_ == Kind::barrier || (kind_ == Kind::broadcast && !in_slices_); }

void Collective::start_flows_of(int rank) {
  if (is_in_waves()) return;
  const Call& call = calls_[static_cast<std::size_t>(rank)];
  if (kind_ != Kind::broadcast)
    start_flows(rank, static_cast<double>(call.bytes_for_all), &call.send);
  else if (rank == root_)
    start_flows(rank, static_cast<double>(length_), nullptr);
  else if (scattered_)
    exchange_slices(rank);
}

// All but the root have a part for each other.
void Collective::exchange_slices(int rank) {
  const double others = world_.size() - 1;
  start_flows(rank, static_cast<double>(length_) * (others - 1) / others, nullptr);
}

void Collective::leave(int rank) {
  if (done(rank)) return;
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
    owner_ = call.owner;
    length_ = call.bytes_for_all;
    in_slices_ = kind_ == Kind::broadcast && world_.goes_in_slices(length_);
  } else if (call.owner != owner_) {
    mismatch(owners_sentence(rank, call.owner, joined_.front(), owner_));
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

void Collective::advance() {
  if (flows_under_way_ > 0 || is_ending_ || world_.is_broken()) return;
  if (in_slices_ && !scattered_) {
    if (std::ranges::find(joined_, root_) == joined_.end()) return;
    scattered_ = true;  // before the switches below: who joins meanwhile starts its own
    for (const int rank : std::vector(joined_))
      if (rank != root_) exchange_slices(rank);
    if (flows_under_way_ > 0) return;
  }
  if (!joined_by_all()) return;
  is_ending_ = true;
  end(is_in_waves() ? ends_of_waves() : joined_s_);
}

std::vector<double> Collective::ends_of_waves() const {
  const int size = world_.size();
  const bool is_barrier = kind_ == Kind::barrier;
  const double bytes = is_barrier ? world_.simulated_control_bytes(0)
                                  : world_.simulated_bytes(world_.pretended(static_cast<double>(length_), traffic_));
  std::vector<std::vector<Transfer>> schedules;
  for (int rank = 0; rank < size; ++rank)
    schedules.push_back(is_barrier ? barrier_schedule(rank, size) : broadcast_schedule(rank, size, root_, {}, false));
  const auto time_of = [&](const Flow& flow) { return world_.simulator().time_alone(flow); };
  std::vector<double> ends = joined_s_, link_free = joined_s_;  // a worker's sends follow each other on its link
  for (int wave = 0; wave < waves_among(size); ++wave) {
    const std::vector<double> begins = ends;
    for (int rank = 0; rank < size; ++rank)
      for (const Transfer& transfer : schedules[static_cast<std::size_t>(rank)]) {
        if (!transfer.is_send || transfer.wave != wave) continue;
        double &end = ends[static_cast<std::size_t>(transfer.peer)], &free = link_free[static_cast<std::size_t>(rank)];
        const double begin = std::max(begins[static_cast<std::size_t>(rank)], free);
        const double alone = time_of({rank, transfer.peer, bytes});
        end = std::max(end, begin + alone);
        free = begin + alone - time_of({rank, transfer.peer, 0});
      }
  }
  return ends;
}

void Collective::end(const std::vector<double>& at_s) {
  const double now = Simulator::now();
  std::map<double, std::vector<int>> ranks;
  for (int rank = 0; rank < world_.size(); ++rank)
    ranks[std::max(at_s[static_cast<std::size_t>(rank)], now)].push_back(rank);
  Simulator::at_once([&] {
    for (const auto& [time, those] : ranks) {
      if (time == now)
        end_for(those);
      else
        Simulator::after(time - now, [self = shared_from_this(), those = those] { self->end_for(those); });
    }
  });
}

void Collective::end_for(const std::vector<int>& ranks) {
  for (const int rank : ranks) is_done_[static_cast<std::size_t>(rank)] = true;
  for (const int rank : ranks) world_.bell(rank).ring();
}

void Collective::mismatch(const std::string& sentence) {
  world_.fail(Error(ErrorCode::mismatch, sentence, "sim"), -1);
  world_.throw_error();
}

}  // namespace flockstep::engines::sim
