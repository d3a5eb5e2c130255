// One rank of a run: its process, here or through ssh, which may end and be started again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "supervisor/process.h"
#include "supervisor/relay.h"
#include "supervisor/restarts.h"

namespace flockstep::supervisor {

// What all workers of a run are started with.
struct RunPlan {
  std::vector<std::string> command;
  std::vector<std::string> variables;  // "NAME=VALUE"
  std::string secret, secret_file;     // the file for workers of this host, the text for others
  std::string host;                    // FLOCKSTEP_HOST of workers of this host, or empty
  std::string ssh;
  std::string id;      // random
  std::string folder;  // for workers of other hosts: the one we are in
};

class WorkerSlot {
 public:
  WorkerSlot(int rank, std::string host, engines::Place place, const RestartLimits& limits)
      : rank_(rank), host_(std::move(host)), place_(place), restarts_(limits) {}

  int rank() const { return rank_; }
  const std::string& host() const { return host_; }
  Restarts& restarts() { return restarts_; }

  // Throws what Process does.
  void start(const RunPlan& plan, Relay& relay);
  bool is_running() const { return process_ != nullptr; }
  int end_descriptor() const { return process_->end_descriptor(); }
  std::optional<Ending> ended();  // once
  void signal(int number);        // to all of its processes
  void kill_connection();         // of a worker on another host, which may go on

 private:
  std::vector<std::string> variables_of(const RunPlan& plan) const;
  void start_here(const RunPlan& plan, int output, int errors);
  void start_there(const RunPlan& plan, int output, int errors);

  int rank_;
  std::string host_;  // empty: this one
  engines::Place place_;
  Restarts restarts_;
  std::unique_ptr<Process> process_;
  Descriptor orders_;  // of a worker on another host: the script's input
};

}  // namespace flockstep::supervisor
