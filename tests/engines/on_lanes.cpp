// The conformance suite on the engine of c10d over lanes in memory, without torch: for the sanitizers, which cannot
// look into the Python programs that it is for.
#include <exception>
#include <thread>

#include "conformance.h"
#include "engines/c10d/engine.h"
#include "memory_lanes.h"

namespace flockstep::engines::conformance {

void on_lanes(const WorkerMain& body) {
  const int workers = subject().workers;
  Switchboard first(workers), second(workers), control(workers);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(workers));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, rank] {
        try {
          c10d::Lanes data;
          data.push_back(first.lane(rank));
          data.push_back(second.lane(rank));
          c10d::C10dEngine engine(std::move(data), control.lane(rank));
          body(engine);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
  }
  for (const auto& each : thrown)
    if (each) std::rethrow_exception(each);
}

}  // namespace flockstep::engines::conformance
