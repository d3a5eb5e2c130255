// Links between devices that are none: an engine's messages, sent in the order of a queue by whoever does its work.
#pragma once

#include <vector>

#include "engines/device_links.h"
#include "engines/wait.h"
#include "support/calls.h"

namespace flockstep::test {

class EngineLinks final : public engines::DeviceLinks {
 public:
  explicit EngineLinks(engines::Engine& engine, Calls* calls = nullptr) : engine_(engine), calls_(calls) {}

  void exchange(kernels::Queue& queue, std::span<const engines::DeviceBlock> blocks) override {
    for (const engines::DeviceBlock& block : blocks)
      if (block.peer != engine_.rank()) bytes_sent_ += block.send.size();
    queue.call([this, kept = std::vector(blocks.begin(), blocks.end())] { exchange_now(kept); });
    if (calls_) record(blocks);
  }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  void check() override {}
  Flag failed() const override { return failed_; }
  void abort() noexcept override { *failed_ = true; }

 private:
  void record(std::span<const engines::DeviceBlock> blocks) const {
    std::string line = "exchange:";
    for (const auto& [peer, send, receive] : blocks)
      line += " " + std::to_string(peer) + " gets " + std::to_string(send.size()) + " " + calls_->name_of(send.data()) +
              " for " + std::to_string(receive.size()) + " " + calls_->name_of(receive.data()) + ",";
    calls_->replace(line);
  }
  void exchange_now(const std::vector<engines::DeviceBlock>& blocks) {
    std::vector<engines::Pending> pending;
    for (const auto& [peer, send, receive] : blocks) {
      if (peer == engine_.rank()) {
        std::ranges::copy(send, receive.begin());
        continue;
      }
      if (!receive.empty()) pending.push_back(engine_.receive(peer, kTag, receive));
      if (!send.empty()) pending.push_back(engine_.send(peer, kTag, send));
    }
    for (const engines::Pending& each : pending)
      engines::wait(engine_, *each, engine_.now() + base::Duration(60), "an exchange of blocks");
  }

  static constexpr engines::Tag kTag = 77;
  engines::Engine& engine_;
  Calls* const calls_;
  std::uint64_t bytes_sent_ = 0;
  const std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace flockstep::test
