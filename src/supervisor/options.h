// What `flockstep launch` and `python -m flockstep.launch` take, checked in one place for both.
#pragma once

#include <string>
#include <vector>

#include "engines/engine.h"

namespace flockstep::supervisor {

struct Options {
  int workers = 0;
  std::vector<std::string> command;
  std::vector<std::string> hosts;  // empty: all workers are on this host
  int restarts = 10;               // of each worker
  std::string heartbeat = "5s";    // after which a silent worker counts as lost
  std::string join;                // host:port of the store of a run to join; empty: a run of its own
  std::string secret_file;         // empty: a secret is made, in a file that is removed at the end
  std::string address;             // at which others reach this host; empty: see store_host()
  int port = 0;                    // of the store; 0: any that is free
  std::string ssh = "ssh";         // started as `ssh HOST sh -s`
  bool prefix = false;             // before each line of a worker its rank, also where output is no terminal
};

// Throws Error{bad_input}.
void check(const Options& options);

// Where the store listens: this host alone, unless there are others. Throws Error{bad_input} where others would not
// reach this host by its name.
std::string store_host(const Options& options);

// The one of worker `index`; workers are spread in blocks. Empty where there are no others.
std::string host_of(const Options& options, int index);
// Which of the workers of its host it is, and how many these are.
engines::Place place_of(const Options& options, int index);

}  // namespace flockstep::supervisor
