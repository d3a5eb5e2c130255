// A worker's own numbers from torch's default generator, which is one per process. Modules such as dropout draw from
// nothing else, and workers that share a process would take each other's numbers in an order that nobody knows.
#pragma once

#include <torch/types.h>

#include <functional>

namespace flockstep::torch_front {

class OwnRandom {
 public:
  OwnRandom(std::uint64_t seed, int rank);

  // What `body` draws comes from here. One worker of a process at a time; the default generator is as it was
  // afterwards.
  void run(const std::function<void()>& body);
  bool running() const { return running_; }

  torch::Tensor state() const { return state_; }  // bytes
  void set_state(const torch::Tensor& state);

 private:
  torch::Tensor state_;
  bool running_ = false;
};

}  // namespace flockstep::torch_front
