// Workers on threads, one at a time, for tests that are about the libtorch front and not about an engine.
#pragma once

#include "refuses.h"
#include "training.h"

namespace flockstep::test {

using Floats = std::vector<float>;

inline void on_workers(int count, const std::function<void(Worker&)>& body, std::uint64_t seed = 1) {
  torch::set_num_threads(1);
  launch({.workers = count, .deadline_s = 20, .deterministic = true, .seed = seed}, body);
}

// The same on some worker.
inline testing::AssertionResult refuses(ErrorCode code, const std::string& part, int count,
                                        const std::function<void(Worker&)>& body) {
  return refuses(code, part, [&] { on_workers(count, body); });
}

inline void take_step(Worker& worker, DataParallel& parallel, Net& net, torch::optim::Optimizer& optimizer, int step) {
  optimizer.zero_grad();
  loss_of(net, batch_of(worker.rank(), step, 4)).backward();
  parallel.step(optimizer);
}

}  // namespace flockstep::test
