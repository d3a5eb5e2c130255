// A program in a session of its own, which goes on when this process dies.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "supervisor/descriptor.h"
#include "supervisor/restarts.h"

namespace flockstep::supervisor {

struct ProcessStart {
  std::vector<std::string> command;    // the first is looked for on the PATH if it has no slash
  std::vector<std::string> variables;  // "NAME=VALUE", on top of our environment
  std::vector<std::string> without;    // names of ours that it does not get
  int input = -1;                      // descriptors that it gets as 0, 1 and 2; -1 as input: nothing to read
  int output = 1, errors = 2;
};

class Process {
 public:
  // Throws Error{unavailable} if it cannot be started.
  explicit Process(const ProcessStart& start);
  ~Process();  // kills what is still there
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Readable once it has ended; -1 on a Linux before 5.3, where one has to ask.
  int end_descriptor() const { return end_.get(); }
  // How it ended, if it has. What is left of the group of one that failed is killed.
  std::optional<Ending> ended();
  void signal_group(int number);

 private:
  pid_t id_ = -1;  // of the process, its group and its session; -1 once it is reaped
  Descriptor end_;
};

}  // namespace flockstep::supervisor
