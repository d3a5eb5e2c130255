// What every number of a run should be, worked out in double from what workers and rounds do, and compared with what it
// is.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "protocol/events.h"
#include "runtime/layout.h"
#include "simulation/groups.h"

namespace flockstep::simulation {

class Ledger {
 public:
  explicit Ledger(const Scenario& scenario);

  void begins(int rank, std::span<const float> model);
  // What the worker has done sets out, and is there for rounds to take: at once, unless the model is on a device.
  void sets_out(int rank, Iteration iteration, std::span<const float> model);
  void lands(int rank);
  // The ledger judges the update as the worker's guard does, and keeps what is left of it: when it sets out, or when it
  // lands if the model is on a device. `before` is the guard as it was, `news` what it has measured of this update.
  bool judges_late() const { return scenario_.on_device; }
  void judges(int rank, const math::UpdateGuard& before, const math::UpdateNews& news);
  // What it has set out with is what its guard has left of it, wherever that shows.
  void arrives(int rank, std::span<const float> model);
  // After the merge, and when the worker is about to go on: with it, or without it where rounds overlap with steps.
  void merges(int rank, std::span<const float> model, protocol::Outcome outcome);
  void proceeds(int rank, std::span<const float> model);
  void goes_on(int rank, std::span<const float> model);

  // `next` is the first round after a return, for a worker that has just come back.
  void freezes(int rank, Iteration next, std::size_t size, bool is_fresh);
  void settles(int rank, runtime::Range part, std::span<const float> average);
  void completes(int rank, int members);

  void gives(int rank, std::span<const float> model);
  void rejoins(int rank, std::span<const float> model, bool is_adopted);

  Iteration round_of(int rank) const { return worker(rank).executed + 1; }
  bool all_is_over() const;
  // All rounds are over, and the worker ends with this shared model.
  void ends(int rank, std::span<const float> model);
  // After all have ended: updates are all that has moved the sum of the shared models.
  void require_conserved() const;

 private:
  using Numbers = std::vector<double>;
  struct Average {  // of one group in one round
    int members = 0;
    Numbers sums;
    std::vector<float> bits;  // of the first member that has settled them
    std::vector<bool> is_settled;
  };
  struct Worker {
    Numbers shared, before;        // what a round would take; published: and what it would have before the worker came
    Numbers snapshot;              // additive: that the worker computes with
    Numbers own;                   // what it arrived with
    Iteration arrives_at = 0;      // the iteration of that
    Numbers update;                // additive: what it adds
    Numbers goes_on_with;          // published
    bool has_snapshot = true;      // published: of what it went on with, as long as rounds leave a place for that
    bool is_lost = false;          // on a device: its model is not finite, or far off
    Numbers taken;                 // by the round under way
    std::vector<bool> is_settled;  // of that round
    bool is_under_way = false, has_come_back = false;
    Iteration version, executed, merged;  // iteration of `shared`; newest round that is complete, and that was merged
    Iteration taken_version = 0, executed_version = 0;
    bool was_behind = false, has_to_merge = false;
    std::vector<float> average;  // of the newest round
    int members = 0;
  };

  Worker& worker(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  const Worker& worker(int rank) const { return workers_[static_cast<std::size_t>(rank)]; }
  bool is_additive() const { return scenario_.merging == Merging::additive; }
  Average& average_of(int rank);
  protocol::Outcome right_outcome(const Worker& worker) const;
  Numbers merged(const Worker& worker, protocol::Outcome outcome) const;
  const Numbers& measured_from(const Worker& worker) const;
  void require(std::string_view property, int rank, bool holds, const char* what) const;
  void require_near(std::string_view property, int rank, std::span<const float> is, const Numbers& should_be,
                    const char* what) const;

  const Scenario& scenario_;
  Groups groups_;
  std::vector<Worker> workers_;
  std::map<std::pair<Iteration, int>, Average> averages_;  // per round and lowest rank of the group
  std::vector<std::vector<float>> gifts_;                  // that nobody has gone on with yet
  Numbers total_, ended_,
      size_;  // additive: of all shared models, as it should be and is, and of their absolute values
};

}  // namespace flockstep::simulation
