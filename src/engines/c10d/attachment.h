// An engine on process groups that a Python program has made for it: groups of our own over the same ranks, which
// nobody else uses. C++ cannot make them; python/flockstep/_worker.py does.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <vector>

#include "base/time.h"

namespace flockstep::engines {
struct Engine;
}
namespace flockstep::engines::c10d {

class C10dEngine;

struct Groups {  // Gloo's, both
  // Collectives and messages, at least one: each group reads and writes on a thread of its own.
  std::vector<c10::intrusive_ptr<::c10d::Backend>> data;
  c10::intrusive_ptr<::c10d::Backend> control;  // control messages, failures, farewells
};

// Needs nothing of Python, and no lock of it: callers give the interpreter's up before they wait here. The groups stay
// alive for as long as it does, whatever becomes of them in Python. In a forked child its end does nothing.
class Attachment {
 public:
  explicit Attachment(const Groups& groups);
  // As close().
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  Engine& engine();

  // Not collective, and never long: says farewell to the peers, ends the threads and closes the connections. Peers that
  // still wait for this worker hear that it has ended. Waits and operations on the engine throw from then on. A second
  // call does nothing.
  void close() noexcept;

 private:
  std::unique_ptr<C10dEngine> engine_;
  int process_;
};

}  // namespace flockstep::engines::c10d
