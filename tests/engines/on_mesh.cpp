// The conformance suite on the mesh engine: all workers in this process, over connections on this host.
#include <barrier>
#include <exception>
#include <thread>

#include "conformance.h"
#include "engines/mesh/options.h"

namespace flockstep::engines::conformance {
namespace {

// Control messages to peers that have not been met are lost, and the suite waits for each.
void meet_all(Engine& engine) {
  int met = 0;
  const auto are_all_met = [&] {
    while (const auto control = engine.take_control()) {
      EXPECT_EQ(control->what, Control::What::met) << "worker " << control->peer << " was lost at the start";
      ++met;
    }
    return met == engine.size() - 1;
  };
  ASSERT_TRUE(engine.wait_until(are_all_met, in_good_time(engine)));
}

}  // namespace

void on_mesh(const WorkerMain& body) {
  const int workers = subject().workers;
  mesh::StoreOptions store_options;
  store_options.secret = mesh::make_secret();
  store_options.workers = workers;
  const mesh::Store store(store_options);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(workers));
  std::barrier all_have_met(workers);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, rank] {
        try {
          mesh::MeshOptions options;
          options.rank = rank;
          options.workers = workers;
          options.store = store.address();
          options.secret = store_options.secret;
          const auto engine = mesh::make_engine(options);
          meet_all(*engine);
          all_have_met.arrive_and_wait();
          body(*engine);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
  }
  for (const auto& each : thrown)
    if (each) std::rethrow_exception(each);
}

}  // namespace flockstep::engines::conformance
