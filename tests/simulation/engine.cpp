#include "simulation/engine.h"

#include <algorithm>
#include <utility>

#include "simulation/fiber_agent.h"

namespace flockstep::simulation {

using engines::Bytes;
using engines::ConstBytes;
using engines::Pending;

class SeededNetwork::Gathering final : public engines::Operation {
 public:
  explicit Gathering(const bool& is_done) : is_done_(is_done) {}
  bool done() override { return is_done_; }

 private:
  const bool& is_done_;
};

SeededNetwork::SeededNetwork(Cluster& cluster, Lie lie)
    : cluster_(cluster),
      transfers_(cluster, lie),
      controls_(static_cast<std::size_t>(size())),
      newest_(controls_.size() * controls_.size()),
      issued_(controls_.size()) {}

void SeededNetwork::send_control(int from, int to, ConstBytes payload) {
  ++control_messages_;
  double& newest = newest_[static_cast<std::size_t>(from * size() + to)];
  newest = std::max(newest, cluster_.now() + cluster_.scenario().control.draw(cluster_.random()));
  cluster_.at(newest, [this, to, control = engines::Control{from, {payload.begin(), payload.end()}}] {
    controls_[static_cast<std::size_t>(to)].push_back(control);
    cluster_.ring(to);
  });
}

std::optional<engines::Control> SeededNetwork::take_control(int rank) {
  auto& waiting = controls_[static_cast<std::size_t>(rank)];
  if (waiting.empty()) return std::nullopt;
  std::optional<engines::Control> first = std::move(waiting.front());
  waiting.pop_front();
  return first;
}

Pending SeededNetwork::gather(int rank, ConstBytes mine, std::span<const Bytes> receive) {
  const std::size_t number = issued_[static_cast<std::size_t>(rank)]++;
  if (number == collectives_.size()) collectives_.push_back({std::vector<End>(controls_.size()), size()});
  Collective& collective = collectives_[number];
  End& end = collective.ends[static_cast<std::size_t>(rank)];
  end = {{mine.begin(), mine.end()}, {receive.begin(), receive.end()}};
  if (--collective.missing == 0)
    for (int other = 0; other < size(); ++other)
      cluster_.at(cluster_.now() + cluster_.scenario().control.draw(cluster_.random()), [this, other, &collective] {
        End& its = collective.ends[static_cast<std::size_t>(other)];
        if (cluster_.is_broken()) return;
        for (std::size_t i = 0; i < its.receive.size(); ++i)
          std::ranges::copy(collective.ends[i].mine, its.receive[i].begin());
        its.is_done = true;
        cluster_.ring(other);
      });
  return std::make_unique<Gathering>(end.is_done);
}

// ---- one worker's ----

namespace {

[[noreturn]] void not_there(const char* what) {
  throw Error(ErrorCode::unavailable, std::string("the seeded engine has no ") + what, "seeded");
}

}  // namespace

Pending SeededEngine::all_to_all(std::span<const ConstBytes>, std::span<const Bytes>, engines::Traffic) {
  not_there("all-to-all");
}
Pending SeededEngine::broadcast(Bytes, int) { not_there("broadcast"); }

Pending SeededEngine::all_gather(ConstBytes mine, std::span<const Bytes> receive, engines::Traffic) {
  return network_.gather(rank_, mine, receive);
}

Pending SeededEngine::send(int peer, engines::Tag tag, ConstBytes data) {
  network_.cluster().count_call(rank_);
  return network_.transfers().send(rank_, peer, tag, data);
}

Pending SeededEngine::receive(int peer, engines::Tag tag, Bytes data) {
  network_.cluster().count_call(rank_);
  return network_.transfers().receive(rank_, peer, tag, data);
}

void SeededEngine::send_control(int peer, ConstBytes payload) {
  network_.cluster().count_call(rank_);
  network_.send_control(rank_, peer, payload);
}

void SeededEngine::sleep(base::Duration duration) {
  wait_until([] { return false; }, now() + duration);
}

std::unique_ptr<engines::Signal> SeededEngine::make_signal() {
  return std::make_unique<RingingSignal>(network_.cluster(), rank_);
}

std::unique_ptr<engines::Agent> SeededEngine::spawn(const std::string&, std::function<void()> body) {
  Cluster& cluster = network_.cluster();
  return std::make_unique<FiberAgent>(cluster, cluster.spawn(rank_, std::move(body)));
}

bool SeededEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  return network_.cluster().wait_until(ready, deadline.time_since_epoch().count());
}

void SeededEngine::fail(const Error& error) {
  network_.cluster().break_with(std::make_exception_ptr(error));
  throw error;
}

}  // namespace flockstep::simulation
