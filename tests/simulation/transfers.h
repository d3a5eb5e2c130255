// Messages between seeded engines. Their bytes are read and written as early or as late as the contract of engines
// allows, and a write to bytes that belong to the engine is noticed here. Where connections may end, every operation
// may be withdrawn, or be gone with its connection.
#pragma once

#include <deque>
#include <vector>

#include "simulation/seeded_network.h"

namespace flockstep::simulation {

class Transfers {
 public:
  explicit Transfers(SeededNetwork& network);

  engines::Pending send(Machine& from, int to, engines::Tag tag, engines::ConstBytes data);
  engines::Pending receive(Machine& at, int peer, engines::Tag tag, engines::Bytes data);
  std::int64_t messages() const { return messages_; }
  std::int64_t withdrawn() const { return withdrawn_; }

 private:
  struct Receive;
  struct Transfer {            // either end's
    ConnectionPtr connection;  // null where there is none
    int side = 0;              // of the end whose bytes these are
    Machine* machine = nullptr;
    int peer = 0;
    engines::Tag tag = 0;
    bool is_withdrawn = false, is_free = false;  // nobody touches its bytes any more
    void is_at(const ConnectionPtr& its, Machine& own, int other, engines::Tag with);
    bool is_gone() const { return !connection || connection->ends[static_cast<std::size_t>(side)].is_gone; }
  };
  struct Message : Transfer {
    engines::ConstBytes data;
    std::vector<std::byte> bytes;  // as they were sent
    bool is_read_late = false, is_rendezvous = false;
    bool is_read = false, has_arrived = false, is_moving = false, is_off = false, is_recalled = false;
    Receive* receive = nullptr;
  };
  struct Receive : Transfer {
    engines::Bytes data;
    bool is_written_late = false, is_written = false, has_come = false;
    Message* message = nullptr;
  };
  template <typename T>
  class Operation;
  using Messages = std::vector<Message*>;
  using Receives = std::vector<Receive*>;

  double draw(const Delays& delays) { return delays.draw(cluster_.random()); }
  bool fits(const Message& message, const Receive& receive) const;
  bool reaches(const Message& message) const;
  void arrive(Message& message);
  void meet(Message& message);
  void hand_over(Message& message);
  void take_off(Message& message);
  void read(Message& message);
  void write(Receive& receive);
  bool end(Message& message);
  bool end(Receive& receive);
  void withdraw(Message& message);
  void withdraw(Receive& receive);
  void free(Message& message);
  void free(Receive& receive);
  void require_end(const Transfer& transfer, bool is_done);
  void require_room(const Machine& machine, engines::ConstBytes data, bool is_written) const;
  [[noreturn]] void touched(int rank, int peer, const char* what) const;

  SeededNetwork& network_;
  Cluster& cluster_;
  std::deque<Message> all_messages_;
  std::deque<Receive> all_receives_;
  // Whose bytes belong to the engine, and that have met no receive; by the rank that sends, or receives.
  std::vector<Messages> sending_, unmatched_;
  std::vector<Receives> receiving_;
  std::int64_t messages_ = 0, withdrawn_ = 0;
};

}  // namespace flockstep::simulation
