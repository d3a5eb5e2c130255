// A device of one worker, whose work is done at once but for copies to main memory: these come late.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "runtime/device_model.h"
#include "simulation/cluster.h"
#include "support/deferred_queue.h"

namespace flockstep::simulation {

class LateDevice {
 public:
  // `model` is what the worker has there.
  LateDevice(Cluster& cluster, std::span<float> model) : beside_(cluster) {
    model_ = {.numbers = model,
              .beside = &beside_,
              .current = [this]() -> kernels::Queue& { return current_; },
              .allocate = [this](std::size_t bytes) { return current_.allocate(bytes); }};
  }
  LateDevice(const LateDevice&) = delete;
  LateDevice& operator=(const LateDevice&) = delete;

  const runtime::DeviceModel& model() const { return model_; }

 private:
  class LateQueue final : public test::DeferredQueue {
   public:
    explicit LateQueue(Cluster& cluster) : cluster_(cluster) {}

    std::string_view device() const override { return "late"; }
    kernels::Block allocate_on_host(std::size_t bytes) override {
      kernels::Block block = DeferredQueue::allocate_on_host(bytes);
      on_host_.emplace_back(block.get(), block.get() + bytes);
      return block;
    }
    void follow(kernels::Queue&) override {}
    std::function<bool()> mark() override {
      due_ = std::max(due_, cluster_.now() + cluster_.scenario().device.draw(cluster_.random()));
      return [this, due = due_, copies = issued_] {
        if (cluster_.now() < due) return false;
        for (; done_ < copies; ++done_, late_.pop_front()) late_.front()();
        return true;
      };
    }
    void copy(void* to, const void* from, std::size_t bytes) override {
      for (const auto& [begin, end] : on_host_)
        if (to >= begin && to < end) {
          const auto* const first = static_cast<const std::byte*>(from);
          late_.push_back(
              [to, data = std::vector(first, first + bytes)] { std::memcpy(to, data.data(), data.size()); });
          ++issued_;
          return;
        }
      DeferredQueue::copy(to, from, bytes);
    }

   private:
    void push(std::function<void()> work) override { work(); }

    Cluster& cluster_;
    std::vector<std::pair<void*, void*>> on_host_;
    std::deque<std::function<void()>> late_;
    std::int64_t issued_ = 0, done_ = 0;  // copies
    double due_ = 0;
  };

  kernels::cpu::Queue current_;
  LateQueue beside_;
  runtime::DeviceModel model_;
};

}  // namespace flockstep::simulation
