#include "simulation/engine.h"

#include <utility>

namespace flockstep::simulation {
namespace {

using engines::Bytes;
using engines::ConstBytes;
using engines::Pending;

class RingingSignal final : public engines::Signal {
 public:
  RingingSignal(Cluster& cluster, int rank) : cluster_(cluster), rank_(rank) {}
  void raise() override {
    is_raised_ = true;
    cluster_.ring(rank_);
  }
  bool take() override { return std::exchange(is_raised_, false); }

 private:
  Cluster& cluster_;
  int rank_;
  bool is_raised_ = false;
};

class FiberAgent final : public engines::Agent {
 public:
  FiberAgent(Cluster& cluster, Cluster::Strand& strand) : cluster_(cluster), strand_(strand) {}
  ~FiberAgent() override { cluster_.join(strand_); }
  bool done() override { return strand_.fiber.is_over(); }

 private:
  Cluster& cluster_;
  Cluster::Strand& strand_;
};

[[noreturn]] void not_there(const char* what) {
  throw Error(ErrorCode::unavailable, std::string("the seeded engine has no ") + what, "seeded");
}

}  // namespace

Pending SeededEngine::all_to_all(std::span<const ConstBytes>, std::span<const Bytes>, engines::Traffic) {
  not_there("all-to-all");
}

Pending SeededEngine::broadcast(Bytes, int) { not_there("broadcast"); }

Pending SeededEngine::send(int peer, engines::Tag tag, ConstBytes data) {
  network_.count_call(machine_);
  return transfers_.send(machine_, peer, tag, data);
}

Pending SeededEngine::receive(int peer, engines::Tag tag, Bytes data) {
  network_.count_call(machine_);
  return transfers_.receive(machine_, peer, tag, data);
}

void SeededEngine::send_control(int peer, ConstBytes payload) {
  network_.count_call(machine_);
  network_.send_control(machine_, peer, payload);
}

void SeededEngine::begin_again(Incarnation next) {
  network_.count_call(machine_);
  network_.begin_again(machine_, next);
}

std::unique_ptr<engines::Signal> SeededEngine::make_signal() {
  return std::make_unique<RingingSignal>(network_.cluster(), machine_.rank);
}

std::unique_ptr<engines::Agent> SeededEngine::spawn(const std::string&, std::function<void()> body) {
  Cluster& cluster = network_.cluster();
  return std::make_unique<FiberAgent>(cluster, cluster.spawn(machine_.rank, std::move(body), &machine_.life));
}

bool SeededEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  if (network_.is_elastic()) network_.count_call(machine_);  // where a process may crash while it waits
  return network_.cluster().wait_until(ready, deadline.time_since_epoch().count());
}

void SeededEngine::fail(const Error& error) {
  network_.cluster().break_with(std::make_exception_ptr(error));
  throw error;
}

}  // namespace flockstep::simulation
