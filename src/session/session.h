// An algorithm in the hands of a program that keeps its own loop: how far it has come, and whether the program calls it
// in order. What stands behind the public Synchronizer, without engines and sizes.
#pragma once

#include <memory>

#include "algorithms/registry.h"

namespace flockstep::session {

class Session {
 public:
  Session(std::unique_ptr<algorithms::Algorithm> algorithm, const algorithms::Facts& facts)
      : algorithm_(std::move(algorithm)), facts_(facts) {}

  const algorithms::Facts& facts() const { return facts_; }
  algorithms::Algorithm& algorithm() { return *algorithm_; }
  const algorithms::Algorithm& algorithm() const { return *algorithm_; }

  // Before the first step that is taken here; throws Error{bad_input} the second time.
  void begin(std::span<const float> model);
  // Throws Error{bad_input} if the algorithm needs a beginning and had none.
  void require_begun() const;
  void after_update(std::span<float> model);
  // Away for a while, and back; `updates` is then what the others count. Throws Error{bad_input} out of order, and
  // where the algorithm has no such thing (Algorithm::departures).
  void leave();
  void come_back(std::span<float> model);
  bool is_away() const { return is_away_; }
  // Whoever is away is back with it.
  void consolidate(std::span<float> model);
  // Throws Error{bad_input} on all workers, who all ask, if models lack gradients that drain() would give.
  void require_drained();
  // Local updates so far, with those that others have taken while this worker was away.
  std::int64_t updates() const { return updates_; }

  // Those of this worker before a restore() included.
  algorithms::MeetingReport meetings() const;

  void save(base::Archive& archive) const;
  // Where the algorithm needs a beginning, before begin(): throws Error{bad_input} after it. Elsewhere at any time, and
  // another begin() may follow.
  std::string restore(const base::Archive& archive);
  // Whether the model of the next begin() has to be the same on all workers.
  bool begins_alike() const;

 private:
  void go_on_together();  // with the step that the others are at

  std::unique_ptr<algorithms::Algorithm> algorithm_;
  algorithms::Facts facts_;
  std::int64_t updates_ = 0;
  bool begun_ = false, restored_ = false, is_away_ = false;
  algorithms::MeetingReport earlier_;  // meetings of the session that this one continues
};

}  // namespace flockstep::session
