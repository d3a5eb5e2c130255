#include "simulation/elastic_engine.h"

#include "simulation/fiber_agent.h"

namespace flockstep::simulation {
namespace {

[[noreturn]] void has_none() {
  throw Error(ErrorCode::unavailable, "the elastic engine has no collectives", "elastic");
}

}  // namespace

using engines::Bytes;
using engines::ConstBytes;
using engines::Pending;

Pending ElasticEngine::all_to_all(std::span<const ConstBytes>, std::span<const Bytes>, engines::Traffic) { has_none(); }
Pending ElasticEngine::all_gather(ConstBytes, std::span<const Bytes>, engines::Traffic) { has_none(); }
Pending ElasticEngine::broadcast(Bytes, int) { has_none(); }
Pending ElasticEngine::barrier() { has_none(); }

Pending ElasticEngine::send(int peer, engines::Tag tag, ConstBytes data) {
  network_.count_call(machine_);
  return transfers_.send(machine_, peer, tag, data);
}

Pending ElasticEngine::receive(int peer, engines::Tag tag, Bytes data) {
  network_.count_call(machine_);
  return transfers_.receive(machine_, peer, tag, data);
}

void ElasticEngine::send_control(int peer, ConstBytes payload) {
  network_.count_call(machine_);
  network_.send_control(machine_, peer, payload);
}

void ElasticEngine::begin_again(Incarnation next) {
  network_.count_call(machine_);
  network_.begin_again(machine_, next);
}

void ElasticEngine::sleep(base::Duration duration) {
  wait_until([] { return false; }, now() + duration);
}

std::unique_ptr<engines::Signal> ElasticEngine::make_signal() {
  return std::make_unique<RingingSignal>(network_.cluster(), machine_.rank);
}

std::unique_ptr<engines::Agent> ElasticEngine::spawn(const std::string&, std::function<void()> body) {
  Cluster& cluster = network_.cluster();
  return std::make_unique<FiberAgent>(cluster, cluster.spawn(machine_.rank, std::move(body), &machine_.life));
}

bool ElasticEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  network_.count_call(machine_);
  return network_.cluster().wait_until(ready, deadline.time_since_epoch().count());
}

void ElasticEngine::fail(const Error& error) {
  network_.cluster().break_with(std::make_exception_ptr(error));
  throw error;
}

}  // namespace flockstep::simulation
