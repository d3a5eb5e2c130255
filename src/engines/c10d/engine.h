// A worker that is a member of a PyTorch process group.
//
// Transfers can only be waited for by blocking, so threads of the engine's own do: one after the other for collectives,
// which come in the same order everywhere; one each for messages, which may end in any order; and one per peer that
// listens on a lane of its own for control messages, a peer's failure, its farewell, or the loss of its connection. The
// callers' threads wait for the bell alone. Locks: none is held while another is taken or a caller's code runs, but for
// those inside Memory and the lanes, which are innermost.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <optional>

#include "engines/bell.h"
#include "engines/c10d/exchange.h"
#include "engines/c10d/loopback.h"
#include "engines/c10d/waiters.h"

namespace flockstep::engines::c10d {

class C10dEngine final : public PairwiseEngine {
 public:
  C10dEngine(Lanes data, std::unique_ptr<Lane> control);
  ~C10dEngine() override { close(); }
  C10dEngine(const C10dEngine&) = delete;
  C10dEngine& operator=(const C10dEngine&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "c10d"; }
  base::Memory& memory() override { return memory_; }
  std::uint64_t bytes_sent() const override { return bytes_sent_.load(std::memory_order_relaxed); }

  Pending send(int peer, Tag tag, ConstBytes data) override;
  Pending receive(int peer, Tag tag, Bytes data) override;
  void send_control(int peer, ConstBytes payload) override;
  std::optional<Control> take_control() override;
  std::optional<int> ended() const override {
    const int peer = ended_.load(std::memory_order_acquire);
    return peer >= 0 ? std::optional(peer) : std::nullopt;
  }

  base::Time now() const override { return base::Time(std::chrono::steady_clock::now() - origin_); }
  void sleep(base::Duration duration) override;
  void charge(double) override {}
  std::unique_ptr<Signal> make_signal() override { return std::make_unique<BellSignal>(bell_); }
  std::unique_ptr<Agent> spawn(const std::string& name, std::function<void()> body) override;
  bool wait_until(const std::function<bool()>& ready, base::Time deadline) override;
  [[noreturn]] void fail(const Error& error) override;

  // As Attachment's.
  void close() noexcept;

 private:
  class Transfers;
  class RealAgent;
  enum class Word : std::uint8_t { control, failure, farewell, heard };  // the first byte on the control lane
  struct Farewell {  // how many transfers have passed between the one who says it and the one who hears it
    std::uint64_t sent = 0, received = 0;
  };
  struct Link {  // to one peer; under links_mutex_, but for the line
    explicit Link(Waiters& waiters) : line(waiters) {}
    Farewell passed;                   // here
    int under_way = 0;                 // transfers
    std::optional<Farewell> farewell;  // the peer's
    bool has_answered = false;         // it
    bool is_heard = false;             // the farewell of this worker
    bool is_silent = false;            // nobody listens any more
    std::shared_ptr<Transit> listening;
    std::list<std::shared_ptr<Transit>> talking;
    WaitingLine line;  // of those that wait for what is in talking
  };

  Pending start_collective(std::span<const Transfer> transfers) override;
  std::shared_ptr<Exchange> post(Kind kind, Tag number, std::span<const Transfer> transfers);
  void reserve(std::span<const Transfer> transfers);
  void finish(Exchange& exchange) noexcept;
  bool pass(const Exchange::Part& part);
  void count(const Exchange::Part& part);

  void listen(int peer) noexcept;
  bool hear(int peer, ConstBytes frame);  // false for what no worker sends, which does nothing
  void say(int peer, Word word, ConstBytes payload) noexcept;
  void answer_farewell(int peer) noexcept;
  void fail_if_hopeless(int peer) noexcept;
  std::string gone(int peer) const;
  void lose(int peer, std::string_view why, bool is_control) noexcept;
  void say_farewells() noexcept;
  Link& link(int peer) { return *links_[static_cast<std::size_t>(peer)]; }

  void record(const Error& error) noexcept;  // breaks the engine, and tells the peers why
  bool note(const Error& error) noexcept;    // the first failure; false for any other
  void end_transfers() noexcept;             // all of a broken engine's
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  void require_usable() const;
  void wait_quietly(const std::function<bool()>& ready, base::Duration patience);
  void run_agent(const std::string& name, const std::function<void()>& body) noexcept;
  Error error(ErrorCode code, const std::string& sentence) const { return Error(code, sentence, "c10d"); }

  const std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  const Lanes data_;
  const std::unique_ptr<Lane> control_;
  const int rank_, size_;
  base::Memory memory_;
  Bell bell_;
  Loopback loopback_;
  std::uint64_t collective_count_ = 0;  // the worker's own thread only
  std::atomic<std::uint64_t> bytes_sent_ = 0;

  std::atomic<bool> is_broken_ = false;   // failure_ is set
  std::atomic<bool> is_failing_ = false;  // from then until transfers have ended
  std::atomic<bool> is_closing_ = false;
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;                    // the first one
  std::list<std::shared_ptr<Exchange>> exchanges_;  // under way; under failure_mutex_

  std::mutex control_mutex_;
  std::deque<Control> controls_;
  std::atomic<int> ended_ = -1;  // who has said farewell last; nobody: -1

  Waiters waiters_;
  WaitingLine collectives_{waiters_};
  std::mutex links_mutex_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; the own one is not used
};

}  // namespace flockstep::engines::c10d
