// The conformance suite on the mesh engine: all workers in this process, over connections on this host.
#include <barrier>

#include "mesh_run.h"

namespace flockstep::engines::conformance {
namespace {

// The lives of one worker; `met` is called when the first has met the others.
void live(const mesh::MeshOptions& options, const WorkerMain& body, const std::function<void()>& met) {
  for (bool is_first = true;; is_first = false) {
    const auto engine = mesh::make_engine(options);
    if (is_first) meet(*engine, options.workers - 1);  // control messages to those who have not been met are lost
    if (is_first) met();
    try {
      return body(*engine);
    } catch (const Killed& killed) {
      if (!killed.comes_back) return;
    }
  }
}

}  // namespace

void on_mesh(const WorkerMain& body) {
  const int workers = subject().workers;
  mesh::StoreOptions store_options;
  store_options.secret = mesh::make_secret();
  store_options.workers = workers;
  const mesh::Store store(store_options);
  std::barrier all_have_met(workers);
  on_a_thread_each([&](int rank) {
    mesh::MeshOptions options;
    options.rank = rank;
    options.workers = workers;
    options.store = store.address();
    options.secret = store_options.secret;
    options.reads_memory = rank % 2 == 0;  // the others get long messages through their connections
    live(options, body, [&] { all_have_met.arrive_and_wait(); });
  });
}

}  // namespace flockstep::engines::conformance
