// The store at which the workers of a run find each other: our own, or that of a run which ours join.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "supervisor/options.h"

namespace flockstep::engines::mesh {
class Store;
}

namespace flockstep::supervisor {

class RunStore {
 public:
  // Throws Error{unavailable} where it cannot listen, or where the run to join does not answer; Error{bad_input} where
  // that run has another secret.
  RunStore(const Options& options, const std::string& secret);
  ~RunStore();

  // A worker has finished: none begins anew.
  void end_run();
  bool is_over() const;      // that, or a worker has said that it has the result
  bool has_trained() const;  // a worker has told of a step

  const std::string& address() const { return address_; }   // host:port
  const std::vector<int>& ranks() const { return ranks_; }  // of our workers
  int workers() const { return workers_; }                  // that the run began with

 private:
  std::unique_ptr<engines::mesh::Store> store_;  // nothing when another launcher has it
  std::string address_;
  std::vector<int> ranks_;
  int workers_;
};

}  // namespace flockstep::supervisor
