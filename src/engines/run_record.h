// What an engine knows of its run beyond the workers that live: whether the run has trained, and whether it is over.
// Only an engine with a store for its run (mesh) implements this.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace flockstep::engines {

struct RunRecord {
  virtual ~RunRecord() = default;
  // Fills the model of a worker that begins alone, such as from a checkpoint, and returns its steps. Set only while the
  // worker joins, and called by its agent.
  std::function<std::int64_t()> load = nullptr;
  // Whether this worker may begin alone with a model of so many steps. Returns the sentence of a refusal. Waits for the
  // store, and allows it where the store has gone.
  virtual std::optional<std::string> refusal_to_begin(std::int64_t steps) = 0;
  virtual void tell_progress() = 0;      // this worker has ended a step; returns at once
  virtual void tell_end() noexcept = 0;  // this worker has the result: the run is over; waits for the store
};

}  // namespace flockstep::engines
