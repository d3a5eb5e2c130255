// A device that is none: a thread works off its queue, and an engine's messages stand for links between devices. All
// calls are recorded.
//
// A late one lags as a GPU may: its queue, torch's current stream, and memory, which is spoilt once it is given back. A
// future then holds what its numbers are when the queue comes to it.
#pragma once

#include <cstring>
#include <thread>

#include "support/engine_links.h"
#include "support/thread_queue.h"
#include "torch/device_place.h"

namespace flockstep::test {

// Works at once, as torch does in main memory, so that it waits for whatever it follows.
class CurrentQueue final : public DeferredQueue {
 public:
  using DeferredQueue::DeferredQueue;
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
  explicit HostPlace(Pace pace = Pace::at_once)
      : pace_(pace), late_current_(pace, calls, "current"), queue_(pace, calls, "queue") {}

  c10::Device device() const override { return c10::kCPU; }
  ThreadQueue& queue() override { return queue_; }
  kernels::Queue& current() override {
    if (alternates) {
      CurrentQueue& stream = streams_[++asked_ % 2];
      calls.add("asked for " + stream.name());
      return stream;
    }
    return pace_ == Pace::late ? static_cast<kernels::Queue&>(late_current_) : streams_[0];
  }
  std::unique_ptr<engines::DeviceLinks> connect(engines::Engine& engine, base::Duration) override {
    calls.add("connect");
    return std::make_unique<EngineLinks>(engine, &calls);
  }
  kernels::Block allocate(std::size_t bytes) override {
    if (is_full) throw Error(ErrorCode::unavailable, "there is no memory left\nin many words");
    const kernels::Block block = queue_.allocate(bytes);
    calls.name(block.get(), "memory of " + std::to_string(bytes));
    calls.add("allocate " + std::to_string(bytes));
    spent_.push_back(block);
    return {block.get(), [spoils = pace_ == Pace::late, bytes](std::byte* data) {
              if (spoils) std::memset(data, 0xff, bytes);
            }};
  }
  void hold(const at::Tensor& tensor) override {
    ++buckets;
    held_.push_back(tensor);
    calls.name(tensor.const_data_ptr(), "bucket of " + std::to_string(tensor.numel()));
    calls.add("hold " + calls.name_of(tensor.const_data_ptr()));
  }
  Future make_future(c10::TypePtr type) override { return c10::make_intrusive<c10::ivalue::Future>(std::move(type)); }
  void complete(c10::ivalue::Future& future, c10::IValue value) override {
    queue_.call([kept = Future::reclaim_copy(&future), value, copies = pace_ == Pace::late && value.isTensor()] {
      kept->markCompleted(copies ? c10::IValue(value.toTensor().clone()) : value);
    });
    calls.replace("complete");
    if (!runs_ahead) queue_.catch_up();
  }

  Calls calls;
  int buckets = 0;  // handed over so far
  bool is_full = false;
  bool runs_ahead = false;  // nobody waits for the futures
  bool alternates = false;  // between two streams that torch has, call by call

 private:
  const Pace pace_;
  int asked_ = 0;
  std::vector<kernels::Block> spent_;  // all memory, to the end
  std::vector<at::Tensor> held_;       // likewise
  std::array<CurrentQueue, 2> streams_{{{calls, "current"}, {calls, "another"}}};
  ThreadQueue late_current_, queue_;  // the last follows the others
};

}  // namespace flockstep::test
