// The contract between everything above and a machine that moves bytes and owns time. One object per worker.
//
// Not here: sums (src/engines/all_reduce.h builds the only one), buckets, retries. Collectives are issued by the worker
// itself, in the same order everywhere; messages, control messages, signals and waits may also be used by its agents.
// Operations start when they are made; the bytes they were given belong to the engine until done() has returned true.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "base/memory.h"
#include "base/time.h"
#include "engines/operation.h"
#include "flockstep/error.h"
namespace flockstep::engines {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;
using Tag = std::int64_t;  // 0 .. kMaximalTag; engines that outlive their peers take more, up to kMaximalLongTag
inline constexpr Tag kMaximalTag = 1 << 20, kMaximalLongTag = (Tag{1} << 62) - 1;
// Of one rank: 1, 2 and so on. A worker that was lost comes back under a higher one.
using Incarnation = std::uint32_t;
inline constexpr std::size_t kControlBytes = 1024;  // the longest control message
enum class Traffic { data, figures };  // a simulation may pretend that data are larger than they are, figures never

// A control message; or, on an engine that outlives its peers, that a connection was made or has ended. What a peer
// says comes after it was met and before it is lost.
struct Control {
  enum class What : std::uint8_t { message, met, lost };
  int peer;
  std::vector<std::byte> payload;
  What what = What::message;
  Incarnation incarnation = 1;  // the peer's
};
struct Signal {  // raised by one side, taken by the other; raising twice before a take counts once
  virtual ~Signal() = default;
  virtual void raise() = 0;
  virtual bool take() = 0;
};

struct Place {  // of a worker among those of its node, and how many these are
  int number, workers;
};
struct Agent {  // the destructor waits for the agent's function to return: ask it to, first
  virtual ~Agent() = default;
  virtual bool done() = 0;
};
struct Engine {
  virtual ~Engine() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;
  virtual Place place() const { return {rank(), size()}; }  // where nothing is known: all are of one node
  virtual bool may_be_called_from_a_hook() const = 0;       // while a backward pass is on the stack
  virtual base::Memory& memory() = 0;
  virtual std::uint64_t bytes_sent() const = 0;                 // to other workers, control messages left out
  virtual std::uint64_t bytes_sent_in_collectives() const = 0;  // of these

  // Block i goes to, or comes from, worker i. An empty receive block of one's own skips that copy.
  virtual Pending all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                             Traffic traffic = Traffic::data) = 0;
  virtual Pending all_gather(ConstBytes mine, std::span<const Bytes> receive, Traffic traffic = Traffic::data) = 0;
  virtual Pending broadcast(Bytes data, int root) = 0;
  virtual Pending barrier() = 0;

  virtual Pending send(int peer, Tag tag, ConstBytes data) = 0;
  virtual Pending receive(int peer, Tag tag, Bytes data) = 0;
  virtual void send_control(int peer, ConstBytes payload) = 0;  // never blocks; to oneself too
  virtual std::optional<Control> take_control() = 0;            // from any peer; never blocks
  virtual std::optional<int> ended() const { return {}; }       // a peer that has, where the engine hears of that
  // The worker's next collectives are for this one of its Synchronizers, counted from 1; 0: for none. A collective that
  // workers issue for different ones breaks them with Error{mismatch}, and moves no data.
  void issue_for(std::uint32_t owner) { owner_ = owner; }
  std::uint32_t owner() const { return owner_; }  // the worker's own thread only
  // Whether peers issue the same collectives as this worker, where the engine only finds out by asking. Waits for no
  // answer. Breaks the engine if they do not.
  virtual bool can_ask_around() const { return false; }
  virtual void ask_around() {}

  // ---- engines that outlive their peers; others break when one is lost ----
  // Then every connection ends by itself: take_control() tells of it, what was under way to and from the peer is gone()
  // and its bytes are free, and control messages to one who is not there are dropped. Lost peers are looked for, so the
  // same incarnation may be met again, after a network has healed. Ranks from size() on may join. A collective is over
  // those below size(), and throws Error{peer_lost} where one of them is lost.
  virtual bool outlives_peers() const { return false; }
  virtual Incarnation incarnation() const { return 1; }
  virtual void begin_again(Incarnation /*next*/) {}  // ends all connections, and meets the peers as this one
  virtual void close() noexcept {}  // the peers lose this worker; waits and operations throw from then on

  virtual base::Time now() const = 0;
  virtual void sleep(base::Duration duration) = 0;
  // Virtual time for a kernel's sweep; nothing on real engines.
  virtual void charge(double bytes_touched, Traffic traffic = Traffic::data) = 0;
  virtual std::unique_ptr<Signal> make_signal() = 0;
  virtual std::unique_ptr<Agent> spawn(const std::string& name, std::function<void()> body) = 0;
  // The one way to block: until ready() is true, or false once the deadline has passed; throws if the engine is broken.
  // ready() looks or takes (done, take, take_control) and starts nothing.
  virtual bool wait_until(const std::function<bool()>& ready, base::Time deadline) = 0;
  [[noreturn]] virtual void fail(const Error& error) = 0;  // breaks the engine, here and where it can for its peers

 private:
  std::uint32_t owner_ = 0;
};

}  // namespace flockstep::engines
