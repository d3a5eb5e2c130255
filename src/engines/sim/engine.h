// One simulated worker: its messages, its control messages, and the contract over the world it lives in.
//
// A message sets out whether or not the receiver waits. It does so when an actor of the worker next blocks or lets time
// pass, so at the instant of the send, but together with all others of that instant: those to many peers, as long as
// their sizes are alike, become the few flows of bundle.h and arrive when these have. Control messages are too small to
// be noticed beside data: each takes the time that it would take alone.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engines/engine.h"
#include "engines/sim/inbox.h"
#include "engines/sim/world.h"

namespace flockstep::engines::sim {

class SimEngine final : public Engine {
 public:
  // `peers` are the engines of all workers by rank; it is read only once all have been added.
  SimEngine(SimWorld& world, const std::vector<std::unique_ptr<SimEngine>>& peers, int rank);
  ~SimEngine() override;

  int rank() const override { return rank_; }
  int size() const override { return world_.size(); }
  std::string_view name() const override { return "sim"; }
  Place place() const override;
  // Any call may let other workers run, in the middle of this one's backward pass.
  bool may_be_called_from_a_hook() const override { return false; }
  base::Memory& memory() override { return memory_; }
  // As large as they pretend to be.
  std::uint64_t bytes_sent() const override { return bytes_sent_in_collectives() + whole(bytes_sent_in_messages_); }
  std::uint64_t bytes_sent_in_collectives() const override { return whole(bytes_sent_in_collectives_); }

  Pending all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> receive, Traffic traffic) override;
  Pending all_gather(ConstBytes mine, std::span<const Bytes> receive, Traffic traffic) override;
  Pending broadcast(Bytes data, int root) override;
  Pending barrier() override;

  Pending send(int peer, Tag tag, ConstBytes data) override;
  Pending receive(int peer, Tag tag, Bytes data) override;
  void send_control(int peer, ConstBytes payload) override;
  std::optional<Control> take_control() override;

  base::Time now() const override { return base::Time(base::Duration(Simulator::now())); }
  void sleep(base::Duration duration) override;
  void charge(double bytes_touched, Traffic traffic) override;
  std::unique_ptr<Signal> make_signal() override;
  std::unique_ptr<Agent> spawn(const std::string& name, std::function<void()> body) override;
  bool wait_until(const std::function<bool()>& ready, base::Time deadline) override;
  [[noreturn]] void fail(const Error& error) override;

  // What was sent sets out. For an actor of this worker that blocks, lets time pass or ends. May switch; false if there
  // was nothing.
  bool send_off();

 private:
  struct Outgoing {  // to another worker
    int peer;
    Tag tag;
    double simulated_bytes;
    std::shared_ptr<Message> message;
  };
  struct Carried {
    std::vector<Outgoing> messages;
    std::size_t flows_under_way = 0;
  };
  class SendOperation;
  class CollectiveOperation;
  class FlagSignal;
  class ActorAgent;

  static std::uint64_t whole(double bytes) { return static_cast<std::uint64_t>(bytes + 0.5); }
  Pending join(Collective::Call call);
  void carry(const std::vector<Outgoing>& messages);
  void carry_control(const Outgoing& control);
  void arrive(std::span<const Outgoing> messages);
  void check_address(int peer, Tag tag) const;
  Inbox& inbox_of(int peer) const { return peers_[static_cast<std::size_t>(peer)]->inbox_; }
  SimBell& bell() { return world_.bell(rank_); }

  SimWorld& world_;
  const std::vector<std::unique_ptr<SimEngine>>& peers_;
  const int rank_;
  base::Memory memory_;
  double bytes_sent_in_collectives_ = 0, bytes_sent_in_messages_ = 0;
  std::uint64_t next_collective_ = 0;
  int agents_ = 0;  // alive
  std::vector<Outgoing> outbox_, control_outbox_;
  Inbox inbox_;
};

}  // namespace flockstep::engines::sim
