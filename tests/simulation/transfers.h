// Messages between simulated engines. Their bytes are read and written as early or as late as the contract of engines
// allows, and whoever touches bytes that belong to the engine is noticed here.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engines/engine.h"
#include "simulation/cluster.h"

namespace flockstep::simulation {

// Lies of an engine about its transfers, as if whoever uses it did not wait for them, or mixed them up.
enum class Lie { none, sends_are_off, receives_are_done, tags_are_equal };

class Transfers {
 public:
  Transfers(Cluster& cluster, Lie lie);

  engines::Pending send(int from, int to, engines::Tag tag, engines::ConstBytes data);
  engines::Pending receive(int at, int peer, engines::Tag tag, engines::Bytes data);
  std::int64_t messages() const { return static_cast<std::int64_t>(messages_.size()); }

 private:
  struct Receive;
  struct Message {
    int from, to;
    engines::Tag tag;
    engines::ConstBytes data;
    std::vector<std::byte> bytes;  // as they were sent
    bool is_read_late, is_rendezvous;
    bool is_read = false, has_arrived = false, is_off = false;
    Receive* receive = nullptr;
  };
  struct Receive {
    int at, peer;
    engines::Tag tag;
    engines::Bytes data;
    bool is_written_late, is_written = false, has_come = false;
    Message* message = nullptr;
  };
  template <typename Transfer>
  class Operation;
  using Messages = std::vector<Message*>;
  using Receives = std::vector<Receive*>;

  void meet(Message& message);
  void hand_over(Message& message);
  void take_off(Message& message);
  void read(Message& message);
  void write(Receive& receive);
  bool end(Message& message);
  bool end(Receive& receive);
  void withdraw(const Message& message);
  void withdraw(const Receive& receive);
  void require_room(int rank, engines::ConstBytes data, bool is_written) const;
  bool fits(const Message& message, const Receive& receive) const;
  [[noreturn]] void touched(int rank, int peer, const char* what) const;
  double draw(const Delays& delays) { return delays.draw(cluster_.random()); }

  Cluster& cluster_;
  const Lie lie_;
  std::deque<Message> messages_;
  std::deque<Receive> receives_;
  std::vector<Messages> sending_, unmatched_;  // per sender; per receiver
  std::vector<Receives> receiving_;            // per receiver
};

}  // namespace flockstep::simulation
