// What one simulated worker is being sent: matched by peer and tag, in the order of sending. A short message that
// overtakes a long one of the same peer and tag waits for it, one with another tag or from another peer does not.
// Control messages keep the order of their pair in the same way.
//
// Bytes are copied once, from the sender's span to the receiver's, unless the receiver comes later or the sender drops
// its operation early. With thousands of workers in one process there are millions of messages under way, so each is
// kept small, and what no message uses is not there.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engines/engine.h"

namespace flockstep::engines::sim {

class SimWorld;

struct Message {  // on its way, or not yet taken
  explicit Message(ConstBytes bytes) : data(bytes) {}
  void keep();  // from here on it needs nobody's memory

  ConstBytes data;
  std::vector<std::byte> kept;
  bool has_arrived = false, is_taken = false;
};

class Inbox {
 public:
  Inbox(SimWorld& world, int rank) : world_(world), rank_(rank) {}

  // To be called in the order of sending.
  void announce(int peer, Tag tag, std::shared_ptr<Message> message);
  void announce_control(int peer, std::shared_ptr<Message> message);
  // Of a message that was announced. A receiver with another size breaks the world. May switch.
  void arrive(int peer, Tag tag, Message& message);
  void arrive_control(int peer, Message& message);

  Pending receive(int peer, Tag tag, Bytes target);
  std::optional<Control> take_control();

 private:
  class Receiver;
  struct Channel {  // of one peer and tag, both in the order in which they were made
    std::vector<std::shared_ptr<Message>> messages;
    std::vector<Receiver*> receivers;
  };
  using Key = std::uint64_t;  // of a channel

  static Key key_of(int peer, Tag tag);
  void match(int peer, Tag tag);
  void withdraw(Key key, const Receiver& receiver);

  SimWorld& world_;
  const int rank_;
  std::unordered_map<Key, Channel> channels_;  // those in use; looked up only, so its order has no influence
  std::deque<Control> controls_;               // in order of arrival
};

}  // namespace flockstep::engines::sim
