// A worker on another host: what `ssh HOST sh -s` reads. Everything goes through its standard input, where no list of
// processes shows it.
//
// A remote worker outlives its connection. What it writes passes through `cat`, and is dropped when nobody reads it any
// more; the end of the script's input, which comes when the launcher or the connection ends, is no reason to end.
#pragma once

#include <string>
#include <vector>

namespace flockstep::supervisor {

constexpr int kConnectionFailed = 255;  // ssh's exit status of its own; others are the worker's

struct RemoteWorker {
  std::string id;      // of this worker in this run; tells what is left of it after a connection was lost
  std::string folder;  // to start in
  std::vector<std::string> variables;  // "NAME=VALUE"
  std::vector<std::string> command;
};

// For sh: one word, whatever is in it.
std::string quoted(const std::string& word);

// First ends what is left of the same worker. Later lines of the input are names of signals for its process group, such
// as INT. Exits with the worker's status, 128 + N for signal N. Throws Error{bad_input} where it would be too long to
// be written at once.
std::string script_of(const RemoteWorker& worker);

}  // namespace flockstep::supervisor
