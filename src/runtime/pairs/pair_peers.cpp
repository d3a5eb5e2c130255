#include "runtime/pairs/pair_peers.h"

namespace flockstep::runtime {

PairPeers::Peer* PairPeers::find(int peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : &found->second;
}

// At first a peer does not know this worker's name of the acquaintance, and says 0.
bool PairPeers::is_for_this_acquaintance(const Peer& peer, const PairMessage& message) const {
  if (message.kind == PairMessage::Kind::greeting)
    return message.from != 0 && (message.to == 0 || message.to == peer.mine);
  return peer.is_known() && message.from == peer.theirs && message.to == peer.mine;
}

bool PairPeers::is_met_anew(int peer, const PairMessage& message) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() && message.kind == PairMessage::Kind::greeting && found->second.theirs != 0 &&
         is_for_this_acquaintance(found->second, message) && message.from != found->second.theirs;
}

PairPeers::Worth PairPeers::on_message(int rank, const PairMessage& message) {
  Peer* const peer = find(rank);
  if (!peer || !is_for_this_acquaintance(*peer, message)) return Worth::nothing;
  if (message.kind != PairMessage::Kind::greeting) return Worth::heard;
  if (message.from != peer->theirs) *peer = {.mine = peer->mine, .theirs = message.from};
  peer->is_stranger = message.fingerprint != fingerprint_;
  peer->standing = message.standing;
  peer->rest = message.rest;
  peer->steps = message.steps;
  if (message.rest == PairMessage::Rest::has) {
    peer->result = message.number;
    peer->result_steps = message.steps;
  }
  return message.to == peer->mine ? Worth::heard : Worth::answered;
}

void PairPeers::on_garbage(int rank) {
  if (Peer* const peer = find(rank)) peer->is_stranger = true;
}

PairMessage PairPeers::addressed(int rank, PairMessage message) const {
  const Peer& peer = peers_.at(rank);
  message.from = peer.mine;
  message.to = peer.theirs;
  message.fingerprint = fingerprint_;
  return message;
}

void PairPeers::forget_results() {
  for (auto& [rank, peer] : peers_)
    if (peer.rest != PairMessage::Rest::has) peer.result = 0;
}

}  // namespace flockstep::runtime
