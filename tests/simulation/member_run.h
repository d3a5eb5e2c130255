// Members of the protocol, without engines or numbers, in one loop and on one virtual clock: one run of a scenario.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "simulation/checker.h"
#include "simulation/counts.h"

namespace flockstep::simulation {

// A member as the run sees it, so that tests can put something between the two.
class Participant {
 public:
  virtual ~Participant() = default;
  virtual std::vector<protocol::Action> step(base::Time now, const protocol::Event& event) = 0;
};
using MakeParticipant = std::function<std::unique_ptr<Participant>(const protocol::Options&, int rank)>;
std::unique_ptr<Participant> make_honest(const protocol::Options& options, int rank);

class MemberRun {
 public:
  MemberRun(const Scenario& scenario, const MakeParticipant& make, Flaw flaw = Flaw::none);

  const Truth& truth() const { return truth_; }
  const Counts& counts() const { return counts_; }
  void watch(std::unique_ptr<Checker> checker) { checkers_.push_back(std::move(checker)); }

  // To the end, or to the first Violation, which it throws.
  void run();

 private:
  void happen(Happening happening);
  void hand(int rank, const Happening& happening);
  void carry_out(int rank, const protocol::Action& action);
  template <typename Happened, typename Tell>
  bool tell_checkers(const Happened& happened, const Tell& tell);  // whether all of them were told
  void end_withdrawal(int rank);
  void go_on(int rank, Iteration iteration);
  void begin_iteration(int rank, Iteration iteration);
  Model draw_update();
  bool is_late_timer(const Happening& happening);
  bool crash_is_due(int rank) const;
  void crash(int rank);
  void stop_if_due(int rank);

  Truth truth_;
  Queue queue_;
  Network network_;
  base::Random random_;
  std::vector<std::unique_ptr<Participant>> members_;
  Checkers checkers_;
  std::vector<std::int64_t> done_;     // actions of each worker
  std::vector<int> sending_;           // parts of each worker that are not off
  std::vector<bool> withdraws_;        // each worker, until they are
  std::vector<double> stopped_until_;  // of each worker
  std::vector<std::uint64_t> timers_;  // newest of each worker
  std::vector<Fault> faults_;          // still to come
  std::vector<Absence> absences_;      // still to come
  Counts counts_;
};

}  // namespace flockstep::simulation
