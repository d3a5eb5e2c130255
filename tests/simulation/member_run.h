// Members of the protocol, without engines or numbers, in one loop and on one virtual clock: one run of a scenario.
#pragma once

#include "simulation/checker.h"
#include "simulation/counts.h"
#include "simulation/flaws.h"

namespace flockstep::simulation {

class MemberRun {
 public:
  MemberRun(const Scenario& scenario, const MakeParticipant& make);

  const Truth& truth() const { return truth_; }
  Counts counts() const;
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
  std::int64_t events_ = 0, rounds_ = 0, grids_ = 0, merges_ = 0, fresh_ = 0, returns_ = 0;
};

}  // namespace flockstep::simulation
