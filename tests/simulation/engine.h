// The engine of one worker's process in a SeededNetwork; where workers come and go, it outlives its peers.
#pragma once

#include "simulation/transfers.h"

namespace flockstep::simulation {

class SeededEngine final : public engines::Engine {
 public:
  SeededEngine(SeededNetwork& network, Transfers& transfers, Machine& machine)
      : network_(network), transfers_(transfers), machine_(machine) {}

  int rank() const override { return machine_.rank; }
  int size() const override { return network_.size(); }
  std::string_view name() const override { return "seeded"; }
  bool may_be_called_from_a_hook() const override { return true; }
  base::Memory& memory() override { return memory_; }
  std::uint64_t bytes_sent() const override { return 0; }
  std::uint64_t bytes_sent_in_collectives() const override { return 0; }

  engines::Pending all_to_all(std::span<const engines::ConstBytes>, std::span<const engines::Bytes>,
                              engines::Traffic) override;
  engines::Pending all_gather(engines::ConstBytes mine, std::span<const engines::Bytes> receive,
                              engines::Traffic) override {
    return network_.gather(machine_, mine, receive);
  }
  engines::Pending broadcast(engines::Bytes, int) override;
  engines::Pending barrier() override { return network_.gather(machine_, {}, {}); }

  engines::Pending send(int peer, engines::Tag tag, engines::ConstBytes data) override;
  engines::Pending receive(int peer, engines::Tag tag, engines::Bytes data) override;
  void send_control(int peer, engines::ConstBytes payload) override;
  std::optional<engines::Control> take_control() override { return network_.take_control(machine_); }

  bool outlives_peers() const override { return network_.is_elastic(); }
  Incarnation incarnation() const override { return machine_.incarnation; }
  void begin_again(Incarnation next) override;

  base::Time now() const override { return base::Time(base::Duration(network_.cluster().now())); }
  void sleep(base::Duration duration) override {
    wait_until([] { return false; }, now() + duration);
  }
  void charge(double, engines::Traffic) override {}
  std::unique_ptr<engines::Signal> make_signal() override;
  std::unique_ptr<engines::Agent> spawn(const std::string& name, std::function<void()> body) override;
  bool wait_until(const std::function<bool()>& ready, base::Time deadline) override;
  [[noreturn]] void fail(const Error& error) override;

 private:
  SeededNetwork& network_;
  Transfers& transfers_;
  Machine& machine_;
  base::Memory memory_;
};

}  // namespace flockstep::simulation
