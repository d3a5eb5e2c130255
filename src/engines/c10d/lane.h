// Messages between the workers of one process group, matched by peer and tag: all that the engine asks of PyTorch.
// Torch's headers stay behind it, in group_lane.cpp, so that the engine itself builds and is tested without them.
#pragma once

#include <memory>

#include "engines/engine.h"

namespace flockstep::engines::c10d {

// One end of a message. Its bytes are in use until it is destroyed, and never after.
class Transit {
 public:
  virtual ~Transit() = default;
  // Blocks until the message has passed: true. False when aborted, before or meanwhile. Throws when the connection is
  // lost and this end was not under way yet; one that was half through may wait in vain until it is aborted.
  virtual bool wait() = 0;
  virtual void abort() noexcept = 0;
};

// All functions may be called from several threads. Those that post throw when the connection to the peer is lost.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The receiving end may be longer than what is sent, which it does not learn; never shorter.
  virtual std::unique_ptr<Transit> send(int peer, Tag tag, ConstBytes bytes) = 0;
  virtual std::unique_ptr<Transit> receive(int peer, Tag tag, Bytes bytes) = 0;
  // Closes all connections. Where a receive was aborted, and its bytes come all the same, the lane could do nothing but
  // find no place for them again and again.
  virtual void cut() noexcept = 0;
};

using Lanes = std::vector<std::unique_ptr<Lane>>;

}  // namespace flockstep::engines::c10d
