// Whom an agent that averages in pairs has met, where workers come and go, and what they have said of themselves.
//
// A connection can end and be made anew while one end still reacts to what came through the former one, so that its
// words come through the new one. Hence both ends name each acquaintance, anew for each connection, and messages carry
// both names. One that belongs to a former acquaintance is not heard. An end that learns another name of the other one
// has lost it, and met it again.
//
// Pure: no clock, no engine.
#pragma once

#include <map>

#include "engines/engine.h"
#include "runtime/pairs/pair_message.h"

namespace flockstep::runtime {

class PairPeers {
 public:
  struct Peer {
    std::uint64_t mine, theirs = 0;  // names of the acquaintance; theirs is 0 until it is known
    bool is_stranger = false;        // it means another training
    PairMessage::Standing standing = PairMessage::Standing::idle;
    PairMessage::Rest rest = PairMessage::Rest::none;
    std::int64_t steps = 0;         // when it began to rest
    std::uint64_t result = 0;       // over all who live, that it has or had; 0: none
    std::int64_t result_steps = 0;  // what that counts
    std::uint64_t gather = 0;       // the average over all for which it waits for this worker's x; 0: none

    bool is_known() const { return theirs != 0 && !is_stranger; }
    bool is_present() const { return is_known() && standing == PairMessage::Standing::present; }
  };

  PairPeers(engines::Incarnation incarnation, std::uint64_t fingerprint)
      : incarnation_(incarnation), fingerprint_(fingerprint) {}

  void on_met(int peer) { peers_[peer] = {.mine = std::uint64_t{incarnation_} << 32 | ++named_}; }
  void on_lost(int peer) { peers_.erase(peer); }

  // What a message of a peer is worth.
  enum class Worth {
    nothing,   // it belongs to a former acquaintance
    heard,     // it counts; a greeting has been taken in
    answered,  // the same, of one who does not know this worker's name of the acquaintance: greet it
  };
  Worth on_message(int peer, const PairMessage& message);
  // A greeting tells another name than the one that is known.
  bool is_met_anew(int peer, const PairMessage& message) const;
  // One who does not speak as agents of this kind do.
  void on_garbage(int peer);

  // Named as what the peer and this worker call their acquaintance.
  PairMessage addressed(int peer, PairMessage message) const;

  const std::map<int, Peer>& all() const { return peers_; }
  Peer* find(int peer);
  // Results that others have had before are of no use any more.
  void forget_results();

 private:
  bool is_for_this_acquaintance(const Peer& peer, const PairMessage& message) const;

  engines::Incarnation incarnation_;
  std::uint64_t fingerprint_;
  std::uint32_t named_ = 0;
  std::map<int, Peer> peers_;
};

}  // namespace flockstep::runtime
