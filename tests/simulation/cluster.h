// Workers and agents as fibers of one thread, on one virtual clock: what happens when is drawn from a seed. They switch
// only where they wait.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "simulation/fiber.h"
#include "simulation/scenario.h"

namespace flockstep::simulation {

// Of one worker's process: once it is over, all its strands end wherever they are.
struct Life {
  bool is_over = false;
};
// What ends them, thrown out of waits and calls.
struct Crash {};

class Cluster {
 public:
  // One worker, or one agent.
  struct Strand {
    Strand(int of, const Life* its, std::function<void()> body) : rank(of), life(its), fiber(std::move(body)) {}

    const int rank;
    const Life* const life;  // null for one of no process
    Fiber fiber;
    bool has_crashed() const { return life && life->is_over; }
    const std::function<bool()>* ready = nullptr;  // what it waits for, while it does
    double deadline = 0;
    double timer = kNever;  // when it is looked at next, because of a deadline
    bool is_met = false, is_look_due = false;
    std::exception_ptr thrown;  // by `ready`
  };

  // For so many ranks, of which some may come later.
  Cluster(const Scenario& scenario, int ranks);

  const Scenario& scenario() const { return scenario_; }
  base::Random& random() { return random_; }
  double now() const { return now_; }
  std::int64_t events() const { return events_; }

  // What `body` throws breaks the cluster. It begins when the others wait.
  Strand& spawn(int rank, std::function<void()> body, const Life* life = nullptr);
  // Until all strands have ended; then throws what broke the cluster, if anything did.
  void run();

  // ---- from within strands, and from what happens ----
  void at(double time, std::function<void()> happen);
  // Something that strands of this worker may wait for has changed.
  void ring(int rank);
  bool wait_until(const std::function<bool()>& ready, double deadline);
  // Until the strand has ended, also when the cluster is broken.
  void join(Strand& strand);
  // Something is sent or received: a stop may be due, which lasts from here on.
  void count_call(int rank);
  int stops() const { return stops_; }
  // Of that worker. Where one of its own strands does it, that one goes on to the end of the call.
  void crash(int rank, Life& life);

  // The first error stays. Whoever waits, or begins to, throws.
  void break_with(std::exception_ptr error);
  bool is_broken() const { return error_ != nullptr; }

 private:
  static constexpr double kNever = 1e300;
  struct Due {
    double time;
    std::uint64_t order;
    std::function<void()> happen;
  };
  static bool later(const Due& a, const Due& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }

  void look(Strand& strand);
  void resume(Strand& strand);
  void pause() { current_->fiber.pause(); }
  void set_timer(Strand& strand);
  bool is_over(const Strand& strand) const { return is_broken() || strand.has_crashed(); }
  void throw_if_over();
  double stopped_until(int rank) const { return stopped_until_[static_cast<std::size_t>(rank)]; }

  const Scenario& scenario_;
  base::Random random_;
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::int64_t events_ = 0;
  std::vector<Due> due_;  // a heap
  std::vector<std::unique_ptr<Strand>> strands_;
  int alive_ = 0;
  Strand* current_ = nullptr;
  std::vector<double> stopped_until_;  // per worker
  std::vector<std::int64_t> calls_;    // per worker
  std::vector<Fault> faults_;          // still to come
  int stops_ = 0;
  std::exception_ptr error_;
};

}  // namespace flockstep::simulation
