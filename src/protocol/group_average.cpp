#include "protocol/group_average.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {

GroupAverage::GroupAverage(Iteration round, Ranks members, Ranks absent, int rank, int chunks, int window)
    : round_(round),
      members_(std::move(members)),
      absent_(std::move(absent)),
      rank_(rank),
      chunks_(chunks),
      window_(window) {}

std::size_t GroupAverage::index_of(int member) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(members_, member) - members_.begin());
}

template <typename F>
void GroupAverage::each_other(const F& f) const {
  const std::size_t own = index_of(rank_), count = members_.size();
  for (std::size_t step = 1; step < count; ++step) f(members_[(own + step) % count]);
}

void GroupAverage::begin(std::vector<Action>& actions) {
  if (members_.size() == 1) {
    for (int number = 0; number < chunks_; ++number) actions.push_back(Sum{number});
    finished_ = chunks_;
    return;
  }
  for (int number = 0; number < std::min(window_, chunks_); ++number) begin_chunk(actions, number);
}

void GroupAverage::send(std::vector<Action>& actions, int peer, Phase phase, int number) {
  ++sends_under_way_;
  actions.push_back(SendPart{peer, {round_, phase, number, absent_}});
}

void GroupAverage::begin_chunk(std::vector<Action>& actions, int number) {
  under_way_[number].peers.resize(members_.size());
  each_other([&](int peer) { actions.push_back(ExpectPart{peer, {round_, Phase::reduce, number, absent_}}); });
  each_other([&](int peer) { send(actions, peer, Phase::reduce, number); });
  const auto early = std::exchange(early_, {});
  for (const auto& [peer, part] : early) received(actions, peer, part);
}

void GroupAverage::received(std::vector<Action>& actions, int peer, const Part& part) {
  if (abandoned_) return;
  const auto found = under_way_.find(part.chunk);
  if (found == under_way_.end()) {
    early_.emplace_back(peer, part);
    return;
  }
  Chunk& chunk = found->second;
  Peer& theirs = chunk.peers[index_of(peer)];
  bool& seen = part.phase == Phase::reduce ? theirs.reduce_received : theirs.gather_received;
  base::check(!std::exchange(seen, true), "every part once");
  if (part.phase == Phase::reduce) {
    if (++chunk.reduces == static_cast<int>(members_.size()) - 1) sum(actions, part.chunk, chunk);
  } else if (chunk.summed && theirs.reduce_sent) {
    actions.push_back(Place{peer, part.chunk});
    settle(actions, part.chunk, peer);
  }
}

// What is gathered is expected only now: it may lie where contributions lay.
void GroupAverage::sum(std::vector<Action>& actions, int number, Chunk& chunk) {
  chunk.summed = true;
  actions.push_back(Sum{number});
  each_other([&](int peer) { actions.push_back(ExpectPart{peer, {round_, Phase::gather, number, absent_}}); });
  each_other([&](int peer) { send(actions, peer, Phase::gather, number); });
  each_other([&](int peer) {
    const Peer& theirs = chunk.peers[index_of(peer)];
    if (theirs.gather_received && theirs.reduce_sent) actions.push_back(Place{peer, number});
  });
}

void GroupAverage::sent(std::vector<Action>& actions, int peer, const Part& part) {
  --sends_under_way_;
  if (abandoned_) return;
  Chunk& chunk = under_way_.at(part.chunk);
  Peer& theirs = chunk.peers[index_of(peer)];
  if (part.phase == Phase::gather) {
    theirs.gather_sent = true;
  } else {
    theirs.reduce_sent = true;
    if (chunk.summed && theirs.gather_received) actions.push_back(Place{peer, part.chunk});
  }
  settle(actions, part.chunk, peer);
}

// Called after each change with a peer but the first, so that the last one is seen exactly once.
void GroupAverage::settle(std::vector<Action>& actions, int number, int peer) {
  Chunk& chunk = under_way_.at(number);
  const Peer& theirs = chunk.peers[index_of(peer)];
  if (!(chunk.summed && theirs.reduce_sent && theirs.gather_sent && theirs.gather_received)) return;
  if (++chunk.over < static_cast<int>(members_.size()) - 1) return;
  under_way_.erase(number);
  ++finished_;
  if (number + window_ < chunks_) begin_chunk(actions, number + window_);
}

}  // namespace flockstep::protocol
