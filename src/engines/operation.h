// A transfer or a collective that an engine has under way.
#pragma once

#include <memory>
#include <optional>
#include <vector>

namespace flockstep::engines {

// Dropped before it is done, it is withdrawn where the engine can, else the engine breaks.
struct Operation {
  virtual ~Operation() = default;
  virtual bool done() = 0;
  // On engines that outlive their peers: it is not wanted any more. done() is true once nobody touches its bytes,
  // whether they have come or not; that takes a moment where they are on their way.
  virtual void withdraw() {}
  // Of one that is not done: the peers whose part is missing, as far as is known, rising, each once. It may take a
  // moment to find out, so only who gives up asks.
  virtual std::vector<int> missing() { return {}; }
  // One of them who has ended, so that it will never be done. An agent may have no use for it any more: only who waits
  // for it has lost a peer.
  virtual std::optional<int> gone() { return {}; }
};
using Pending = std::unique_ptr<Operation>;

}  // namespace flockstep::engines
