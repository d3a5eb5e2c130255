// The embedded engine: one worker among P threads of this process.
#pragma once

#include "engines/threads/losses.h"

namespace flockstep::engines::threads {

class ThreadsEngine final : public PairwiseEngine {
 public:
  // With `losses` it outlives its peers, and may be lost itself.
  ThreadsEngine(ThreadsWorld& world, int rank, Losses* losses = nullptr) : world_(world), rank_(rank) {
    if (losses) life_.emplace(*losses, rank);
  }

  int rank() const override { return rank_; }
  int size() const override { return world_.size(); }
  std::string_view name() const override { return world_.name(); }
  base::Memory& memory() override { return memory_; }
  std::uint64_t bytes_sent() const override { return bytes_sent_.load(std::memory_order_relaxed); }

  Pending broadcast(Bytes data, int root) override;
  Pending barrier() override;
  Pending send(int peer, Tag tag, ConstBytes data) override;
  Pending receive(int peer, Tag tag, Bytes data) override;
  void send_control(int peer, ConstBytes payload) override;
  std::optional<Control> take_control() override;

  bool outlives_peers() const override { return life_.has_value(); }
  Incarnation incarnation() const override { return life_ ? life_->incarnation() : 1; }
  void begin_again(Incarnation next) override;
  void close() noexcept override;
  // ---- only where it outlives its peers, once the worker's function is left ----
  void end() { life_->end(); }                        // it has returned; throws Lost if the worker was lost meanwhile
  void lose(const Lost& lost) { life_->lose(lost); }  // it has thrown this
  void abandon(const Error& error) { life_->fail(error); }

  base::Time now() const override { return world_.scheduler().now(); }
  void sleep(base::Duration duration) override;
  void charge(double, Traffic) override {}
  std::unique_ptr<Signal> make_signal() override;
  std::unique_ptr<Agent> spawn(const std::string& name, std::function<void()> body) override;
  bool wait_until(const std::function<bool()>& ready, base::Time deadline) override;
  [[noreturn]] void fail(const Error& error) override;

 protected:
  Pending start_collective(std::span<const Transfer> transfers) override;

 private:
  Pending start(Meeting::Kind kind, std::uint64_t tag, std::span<const Transfer> transfers);
  Pending start_message(Tag tag, const Transfer& transfer);
  void begin_call();

  ThreadsWorld& world_;
  const int rank_;
  std::optional<Life> life_;  // where it outlives its peers
  base::Memory memory_;
  std::atomic<std::uint64_t> bytes_sent_{0};
  std::uint64_t collectives_ = 0;  // only the worker itself issues them
};

}  // namespace flockstep::engines::threads
