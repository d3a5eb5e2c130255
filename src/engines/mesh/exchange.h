// The state of one operation: the messages that it consists of, and how far they have come. Shared by the caller's
// thread, which only looks at what is atomic, and the thread that serves the connections, which owns all else.
#pragma once

#include <atomic>

#include "engines/bell.h"
#include "engines/mesh/frames.h"
#include "engines/transfer.h"

namespace flockstep::engines::mesh {

class Session;
class Exchange;
struct CopyJob;

struct Part {  // one end of one message
  enum class State : std::uint8_t {
    held_back,  // a send whose wave has not come
    waiting,    // for a connection, or for the other end
    offered,    // a send that the peer knows of
    moving,     // the peer, or who reads from it, touches the bytes
    over,       // nobody touches the bytes any more
  };
  Exchange* exchange = nullptr;
  Transfer transfer{};
  State state = State::held_back;
  bool is_withdrawn = false;         // bytes that come are thrown away
  bool is_inline = false;            // it went with its offer
  std::uint64_t number = 0;          // of its offer
  std::shared_ptr<Session> session;  // where it is posted
  std::shared_ptr<CopyJob> copy;
  std::atomic<bool> has_come = false;

  std::size_t size() const { return transfer.is_send ? transfer.send.size() : transfer.receive.size(); }
};
using PartPtr = std::shared_ptr<Part>;  // keeps its exchange, too

struct PartPoster {  // gives a part to the session with its peer
  virtual ~PartPoster() = default;
  virtual void post(const PartPtr& part) = 0;
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Bell& bell, Kind kind, Tag number, std::span<const Transfer> transfers);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Kind kind() const { return kind_; }
  Tag number() const { return number_; }

  // ---- any thread ----
  bool is_complete() const { return is_complete_.load(std::memory_order_acquire); }
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }  // nobody touches the bytes any more
  std::optional<int> lost() const;                                 // the first lost peer, once the exchange has ended
  const Error* told() const { return told_ ? &*told_ : nullptr; }  // why that peer ended, if it has said; after lost()
  std::vector<int> missing() const;

  // ---- the connections' thread ----
  // Posts receives, then sends whose wave has come, now and whenever a receive has come.
  void start(PartPoster& poster);
  void come(Part& part);                                  // it is over and complete
  void end(Part& part);                                   // it is over
  void withdraw();                                        // ends all parts, as soon as that can be
  void lose(int peer, const std::optional<Error>& told);  // the same

 private:
  PartPtr pointer_to(Part& part) { return {shared_from_this(), &part}; }
  void post_sends();
  void close_part(Part& part);
  void cancel_all();

  Bell& bell_;
  const Kind kind_;
  const Tag number_;
  std::vector<std::unique_ptr<Part>> parts_;
  PartPoster* poster_ = nullptr;
  std::size_t open_ = 0;  // parts that are not over
  bool all_have_come_ = true, is_cancelled_ = false;
  std::optional<Error> told_;
  std::atomic<int> lost_ = -1;
  std::atomic<bool> is_complete_ = false, has_ended_ = false;
};

}  // namespace flockstep::engines::mesh
