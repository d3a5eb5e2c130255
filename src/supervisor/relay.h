// What workers write, on its way to our standard output and errors: in whole lines, by a process of its own.
//
// That process outlives this one: a worker whose output nobody reads would block, or end at its next line. It is
// forked, for there is no program of ours that every front could start; so make it before threads, which it does not
// get.
#pragma once

#include <sys/types.h>

#include <string>

#include "supervisor/descriptor.h"

namespace flockstep::supervisor {

class Relay {
 public:
  // Where this process is gone, the last act of the other one is to remove `folder`.
  Relay(bool with_prefix, const std::string& folder);
  ~Relay();  // waits for a moment until all is written
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // A pipe for a process to write to; it ends with the last who holds it. `target` is 1 or 2.
  Descriptor stream(int rank, int target);
  // A line of our own on standard error, after all that was written before.
  void say(const std::string& sentence);

 private:
  Descriptor control_;
  pid_t id_ = -1;
};

}  // namespace flockstep::supervisor
