// The conformance suite on the engine of c10d over lanes in memory, without torch: for the sanitizers, which cannot
// look into the Python programs that it is for.
#include "conformance.h"
#include "engines/c10d/engine.h"
#include "memory_lanes.h"

namespace flockstep::engines::conformance {

void on_lanes(const WorkerMain& body) {
  Switchboard first(subject().workers), second(subject().workers), control(subject().workers);
  on_a_thread_each([&](int rank) {
    c10d::Lanes data;
    data.push_back(first.lane(rank));
    data.push_back(second.lane(rank));
    c10d::C10dEngine engine(std::move(data), control.lane(rank));
    body(engine);
  });
}

}  // namespace flockstep::engines::conformance
