// The engine of one worker in a Cluster: control messages of a pair arrive in order, transfers as Transfers says.
//
// Of collectives it has those that agents begin and end with.
#pragma once

#include <deque>

#include "engines/engine.h"
#include "simulation/transfers.h"

namespace flockstep::simulation {

// What the engines of one cluster share.
class SeededNetwork {
 public:
  SeededNetwork(Cluster& cluster, Lie lie);

  Cluster& cluster() { return cluster_; }
  Transfers& transfers() { return transfers_; }
  int size() const { return cluster_.scenario().options.workers; }

  void send_control(int from, int to, engines::ConstBytes payload);
  std::optional<engines::Control> take_control(int rank);
  // The next collective of this worker; done once everybody has come to it.
  engines::Pending gather(int rank, engines::ConstBytes mine, std::span<const engines::Bytes> receive);
  std::int64_t control_messages() const { return control_messages_; }

 private:
  struct End {  // one worker's, of a collective
    std::vector<std::byte> mine;
    std::vector<engines::Bytes> receive;
    bool is_done = false;
  };
  struct Collective {
    std::vector<End> ends;  // per worker
    int missing;
  };
  class Gathering;

  Cluster& cluster_;
  Transfers transfers_;
  std::vector<std::deque<engines::Control>> controls_;  // per receiver
  std::vector<double> newest_;                          // when the newest control message of a pair arrives
  std::int64_t control_messages_ = 0;
  std::deque<Collective> collectives_;
  std::vector<std::size_t> issued_;  // collectives, per worker
};

class SeededEngine final : public engines::Engine {
 public:
  SeededEngine(SeededNetwork& network, int rank) : network_(network), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  std::string_view name() const override { return "seeded"; }
  bool may_be_called_from_a_hook() const override { return true; }
  base::Memory& memory() override { return memory_; }
  std::uint64_t bytes_sent() const override { return 0; }
  std::uint64_t bytes_sent_in_collectives() const override { return 0; }

  engines::Pending all_to_all(std::span<const engines::ConstBytes>, std::span<const engines::Bytes>,
                              engines::Traffic) override;
  engines::Pending all_gather(engines::ConstBytes mine, std::span<const engines::Bytes> receive,
                              engines::Traffic) override;
  engines::Pending broadcast(engines::Bytes, int) override;
  engines::Pending barrier() override { return network_.gather(rank_, {}, {}); }

  engines::Pending send(int peer, engines::Tag tag, engines::ConstBytes data) override;
  engines::Pending receive(int peer, engines::Tag tag, engines::Bytes data) override;
  void send_control(int peer, engines::ConstBytes payload) override;
  std::optional<engines::Control> take_control() override { return network_.take_control(rank_); }

  base::Time now() const override { return base::Time(base::Duration(network_.cluster().now())); }
  void sleep(base::Duration duration) override;
  void charge(double, engines::Traffic) override {}
  std::unique_ptr<engines::Signal> make_signal() override;
  std::unique_ptr<engines::Agent> spawn(const std::string& name, std::function<void()> body) override;
  bool wait_until(const std::function<bool()>& ready, base::Time deadline) override;
  [[noreturn]] void fail(const Error& error) override;

 private:
  SeededNetwork& network_;
  const int rank_;
  base::Memory memory_;
};

}  // namespace flockstep::simulation
