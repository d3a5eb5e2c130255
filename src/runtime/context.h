// What everything above the engines holds of one worker: its engine, how long it may wait, and where the time went.
#pragma once

#include <cstdint>
#include <memory>

#include "base/log.h"
#include "base/trace.h"
#include "engines/wait.h"
#include "kernels/cpu/queue.h"

namespace flockstep::runtime {

class Context {
 public:
  // `patience` is the deadline of every single wait for a peer. `trace_capacity` 0 records nothing.
  Context(engines::Engine& engine, base::Duration patience, std::size_t trace_capacity = 0,
          base::LogLevel log_level = base::LogLevel::quiet);

  engines::Engine& engine() { return engine_; }
  // Memory, copies and sweeps; virtual time passes with them.
  kernels::cpu::Queue& queue() { return queue_; }
  // The same without any: for what a sweep has left in the caches, and for what is hardly ever done.
  kernels::cpu::Queue& uncharged() { return uncharged_; }
  // Calls sweeps(queue), and lets virtual time pass for all of them at once when they are done.
  template <typename F>
  void charge_together(const F& sweeps) {
    double bytes = 0;
    kernels::cpu::Queue queue([&bytes](double more) { bytes += more; });
    sweeps(static_cast<kernels::Queue&>(queue));
    engine_.charge(bytes);
  }
  int rank() const { return engine_.rank(); }
  int size() const { return engine_.size(); }
  base::Duration patience() const { return patience_; }
  base::Time deadline() const { return engine_.now() + patience_; }
  std::uint32_t next_owner() { return ++owners_; }  // see Engine::issue_for()
  base::Trace& trace() { return trace_; }
  spdlog::logger& log() { return *log_; }

  // Waits for an operation issued at `issued`; counts the time blocked, and traces both it and the transfer.
  // `name` is a string literal, such as "all_to_all".
  void wait(engines::Operation& operation, std::string_view name, base::Time issued);
  // The same for one issued just now.
  void wait(const engines::Pending& operation, std::string_view name) { wait(*operation, name, engine_.now()); }
  // The same for anything that becomes true; `name` completes "... did not finish within 5 s". ready() looks or takes.
  void wait_for(const std::function<bool()>& ready, std::string_view name);
  // The same for what no engine hears of, such as the work of a device: it is looked at again and again.
  void poll_for(const std::function<bool()>& ready, std::string_view name);
  // When to look again, having looked since then: sooner for what is new.
  static base::Time next_look(base::Time since, base::Time now);
  // The same until a deadline: whether it has become true.
  bool poll_until(const std::function<bool()>& ready, base::Time deadline);

  // The sum of a few doubles over all workers, the same bits everywhere; counted and traced as a wait is.
  [[nodiscard]] std::vector<double> all_reduce(std::vector<double> values, std::string_view name);

  // A round that an agent has run beside the worker: counted as a transfer, and traced. Called by the worker, once the
  // agent has handed over what it knows.
  void record(const base::Round& round);

  // A worker has one agent at a time: control messages and tags would not tell two apart. Returns the number of this
  // one, the same on all workers, who make their agents in the same order; throws Error{bad_input} while another lives.
  std::uint32_t begin_agent();
  void end_agent() { has_agent_ = false; }

  // Time spent blocked in the engine since the start.
  base::Duration waited() const { return waited_; }
  // Time that operations and rounds were under way, from issue to the end of the wait for them, added up.
  base::Duration transferred() const { return transferred_; }

 private:
  void count(std::string_view name, base::Time issued, base::Time begin);
  void end_wait(bool is_ready, std::string_view name, base::Time begin);

  engines::Engine& engine_;
  kernels::cpu::Queue queue_, uncharged_;
  base::Duration patience_;
  base::Trace trace_;
  base::Log log_;
  base::Duration waited_{0}, transferred_{0};
  std::uint32_t agents_ = 0;  // begun so far
  std::uint32_t owners_ = 0;
  bool has_agent_ = false;
};

}  // namespace flockstep::runtime
