// What a worker has to know to take its place in a run.
#pragma once

#include "engines/mesh/store.h"

namespace flockstep::engines::mesh {

struct MeshOptions {
  int rank = 0;
  int workers = 1;     // that the run begins with; workers that join later have higher ranks
  std::string store;   // host:port
  std::string secret;  // as the store's
  std::string host;    // host or host:port that the others reach this worker at; empty: where it reaches the store from
  base::Duration heartbeat{5};  // a peer that is silent for so long is lost
  bool reads_memory = true;     // of peers on the same host, where the system lets it
  Incarnation incarnation = 1;  // at least

  // From FLOCKSTEP_RANK, _WORKERS, _STORE, _SECRET_FILE or _SECRET, _HOST, _HEARTBEAT and _RESTARTS. Throws
  // Error{bad_input} for what is missing or malformed.
  static MeshOptions from_environment();
  // Whether this process was started as a worker of such a run.
  static bool are_in_environment();
  void check() const;  // throws Error{bad_input}
  StoreAddress store_address() const { return {store, secret}; }
};

// Returns when the worker listens and the store knows it; the peers are met as they come. Throws Error{unavailable}
// where that cannot be.
std::unique_ptr<Engine> make_engine(const MeshOptions& options);

}  // namespace flockstep::engines::mesh
