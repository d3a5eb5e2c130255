#include "engines/threads/connections.h"

#include <fmt/core.h>

#include <algorithm>

#include "engines/threads/world.h"

namespace flockstep::engines::threads {

using What = Control::What;

Connections::Connections(ThreadsWorld& world)
    : world_(world),
      size_(world.size()),
      seen_(static_cast<std::size_t>(size_ * size_), Seen::never),
      lost_(static_cast<std::size_t>(size_)),
      incarnations_(static_cast<std::size_t>(size_), 1) {
  for (int rank = 0; rank < size_; ++rank) {
    connect_all(rank);
    see(rank, rank, Seen::met);
  }
}

Incarnation Connections::incarnation(int rank) const {
  const auto held = hold();
  return held_incarnation(rank);
}

void Connections::begin(int rank) {
  const auto held = hold();
  world_.forget_control(rank);
  ++incarnations_[static_cast<std::size_t>(rank)];
  for (int peer = 0; peer < size_; ++peer) see(rank, peer, Seen::never);
  see(rank, rank, Seen::met);
  connect_all(rank);
}

void Connections::begin_again(int rank, Incarnation next) {
  const auto held = hold();
  if (!is_there(rank)) return;  // it has been lost meanwhile
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank) continue;
    disconnect(rank, peer, "has begun again");
    see(rank, peer, Seen::never);
  }
  auto& incarnation = incarnations_[static_cast<std::size_t>(rank)];
  incarnation = std::max(next, incarnation + 1);
  connect_all(rank);
}

void Connections::end(int rank, std::string_view why) {
  const auto held = hold();
  if (!is_there(rank)) return;
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank) disconnect(rank, peer, why);
  for (int peer = 0; peer < size_; ++peer) see(rank, peer, Seen::lost);
  for (int peer = 0; peer < size_; ++peer) world_.lose_transfers(rank, peer);
  world_.bell(rank).ring();
}

void Connections::cut(int rank, int peer) {
  const auto held = hold();
  if (cuts_.insert(std::minmax(rank, peer)).second) disconnect(rank, peer, "cannot be reached");
}

void Connections::mend(int rank, int peer) {
  const auto held = hold();
  if (cuts_.erase(std::minmax(rank, peer)) > 0 && is_there(rank) && is_there(peer)) connect(rank, peer);
}

void Connections::see(int rank, int peer, Seen what) {
  seen_[static_cast<std::size_t>(rank * size_ + peer)] = what;
  auto& lost = lost_[static_cast<std::size_t>(rank)];
  std::erase(lost, peer);
  if (what == Seen::lost) lost.push_back(peer);
}

int Connections::first_lost(int rank) const { return lost_[static_cast<std::size_t>(rank)].front(); }

void Connections::connect_all(int rank) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank && is_there(peer)) connect(rank, peer);
}

void Connections::connect(int rank, int peer) {
  if (cuts_.contains(std::minmax(rank, peer))) return;
  for (const auto& [one, other] : {std::pair(rank, peer), {peer, rank}}) {
    see(one, other, Seen::met);
    world_.tell(one, {other, {}, What::met, held_incarnation(other)});
  }
}

// What was under way is lost before anybody hears of it.
void Connections::disconnect(int rank, int peer, std::string_view why) {
  if (!is_met(rank, peer)) return;
  for (const auto& [one, other] : {std::pair(rank, peer), {peer, rank}}) see(one, other, Seen::lost);
  world_.lose_transfers(rank, peer);
  for (const auto& [one, other] : {std::pair(rank, peer), {peer, rank}}) {
    const std::string sentence = fmt::format("worker {} {}", rank, why);
    const auto bytes = std::as_bytes(std::span(sentence));
    world_.tell(one, {other, {bytes.begin(), bytes.end()}, What::lost, held_incarnation(other)});
  }
}

}  // namespace flockstep::engines::threads
