// A device that is none: a thread works off its queue, and an engine's messages stand for links between devices.
#pragma once

#include <thread>

#include "support/engine_links.h"
#include "support/thread_queue.h"
#include "torch/device_place.h"

namespace flockstep::test {

// Works at once, as torch does in main memory, so that it waits for whatever it follows.
class CurrentQueue final : public DeferredQueue {
 public:
  std::string_view device() const override { return "cpu"; }
  std::function<bool()> mark() override {
    return [] { return true; };
  }
  void follow(kernels::Queue& other) override {
    for (const auto is_done = other.mark(); !is_done();) std::this_thread::yield();
  }

 private:
  void push(std::function<void()> work) override { work(); }
};

class HostPlace final : public torch_front::DevicePlace {
 public:
  c10::Device device() const override { return c10::kCPU; }
  kernels::Queue& queue() override { return queue_; }
  kernels::Queue& current() override { return current_; }
  std::unique_ptr<engines::DeviceLinks> connect(engines::Engine& engine, base::Duration) override {
    return std::make_unique<EngineLinks>(engine);
  }
  kernels::Block allocate(std::size_t bytes) override {
    if (is_full) throw Error(ErrorCode::unavailable, "there is no memory left\nin many words");
    return queue_.allocate(bytes);
  }
  void hold(const at::Tensor& tensor) override {
    ++buckets;
    queue_.call([tensor] {});
  }
  Future make_future(c10::TypePtr type) override { return c10::make_intrusive<c10::ivalue::Future>(std::move(type)); }
  void complete(c10::ivalue::Future& future, c10::IValue value) override {
    queue_.call([kept = Future::reclaim_copy(&future), value] { kept->markCompleted(value); });
  }

  int buckets = 0;  // handed over so far
  bool is_full = false;

 private:
  CurrentQueue current_;
  ThreadQueue queue_;
};

}  // namespace flockstep::test
