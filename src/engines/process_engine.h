// What the engines share whose workers are processes of their own: the machine's clock, a bell, agents that are
// threads, collectives in waves, and the first failure, after which nothing works any more.
#pragma once

#include <chrono>

#include "engines/bell.h"
#include "engines/first_error.h"
#include "engines/pairwise.h"
#include "engines/roll_call.h"

namespace flockstep::engines {

// Of short messages that may be long in coming: to receive one counts as having nothing under way.
inline constexpr Tag kQuietTag = kMaximalTag - 128;  // below those of neighbours

class ProcessEngine : public PairwiseEngine {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  Place place() const final;
  base::Memory& memory() final { return memory_; }
  std::uint64_t bytes_sent() const final { return bytes_sent_.load(std::memory_order_relaxed); }

  Pending broadcast(Bytes data, int root) final;
  Pending barrier() final;

  base::Time now() const final { return base::Time(std::chrono::steady_clock::now() - origin_); }
  void sleep(base::Duration duration) override;
  void charge(double, Traffic) final {}
  std::unique_ptr<Signal> make_signal() final { return std::make_unique<BellSignal>(bell_); }
  std::unique_ptr<Agent> spawn(const std::string& name, std::function<void()> body) override;
  bool wait_until(const std::function<bool()>& ready, base::Time deadline) override;
  bool can_ask_around() const final { return size_ > 1; }
  void ask_around() final;
  [[noreturn]] void fail(const Error& error) final;
  bool is_broken() const { return first_error_.is_there(); }

 protected:
  ProcessEngine(int rank, int size) : rank_(rank), size_(size), roll_call_(size) {}

  // Who says that it has not come to this collective; if nobody does, who says nothing. Takes a moment.
  std::vector<int> absent_from(std::uint64_t collective);
  RollCall& roll_call() { return roll_call_; }
  // Breaks the engine if it shows that the peer issues other collectives. False for what no worker sends.
  bool take_answer(int peer, ConstBytes answer);
  virtual void ask_for_answer(int peer) = 0;  // to the roll call

  // Breaks the engine and tells the peers why, unless it is broken already.
  virtual void record(const Error& error) noexcept = 0;
  // The part of it that nobody else hears of. False if it was broken already.
  bool record_here(const Error& error) noexcept;
  void require_usable() const { first_error_.throw_if_any(); }
  Error error(ErrorCode code, const std::string& sentence) const { return Error(code, sentence, std::string(name())); }

  Bell& bell() { return bell_; }
  const FirstError& first_error() const { return first_error_; }
  std::chrono::steady_clock::time_point origin() const { return origin_; }  // of now()
  void count_sent(std::size_t bytes) { bytes_sent_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  class ThreadAgent;
  void run_agent(const std::string& name, const std::function<void()>& body) noexcept;

  const std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  const int rank_, size_;
  base::Memory memory_;
  Bell bell_;
  FirstError first_error_;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
  RollCall roll_call_;
};

}  // namespace flockstep::engines
