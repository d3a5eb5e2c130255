// An engine on process groups that a Python program has made for it: groups of our own over the same ranks, which
// nobody else uses. C++ cannot make them; python/flockstep/_worker.py does.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>

#include "base/time.h"

namespace flockstep::engines {
struct Engine;
}
namespace flockstep::engines::c10d {

class C10dEngine;

struct Groups {
  c10::intrusive_ptr<::c10d::ProcessGroup> data;     // collectives and messages
  c10::intrusive_ptr<::c10d::ProcessGroup> control;  // Gloo, whatever `data` is
};

// Needs nothing of Python, and no lock of it: callers give the interpreter's up before they wait here.
class Attachment {
 public:
  // Collective. `patience` is the deadline of single transfers.
  Attachment(Groups groups, base::Duration patience);
  // As close().
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  Engine& engine();

  // Not collective: ends the threads and withdraws what is under way; peers that still wait for this worker hear that
  // it is gone. Nothing may use the engine any more. A second call does nothing.
  void close() noexcept;

 private:
  std::unique_ptr<C10dEngine> engine_;
};

}  // namespace flockstep::engines::c10d
