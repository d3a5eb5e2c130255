// What workers say to each other beside data, over a lane of its own: control messages, failures, farewells. A thread
// per peer listens, and notices when the connection is lost.
//
// A farewell says how many transfers have passed between the two, so that the one who hears it knows whether what it
// still waits for is on its way or will never come. It is answered once all has come, and only then are connections
// closed: closing one that has unread bytes would throw away what is on its way in the other direction.
//
// Locks: none is held while another is taken or a caller's code runs.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>

#include "engines/bell.h"
#include "engines/c10d/lane.h"
#include "engines/c10d/waiters.h"
#include "engines/first_error.h"
#include "engines/roll_call.h"

namespace flockstep::engines::c10d {

class Links {
 public:
  // `record` breaks the engine. All but the lane must outlive this, and the waiters must have joined before it ends.
  Links(std::unique_ptr<Lane> lane, Waiters& waiters, Bell& bell, RollCall& roll_call, const FirstError& first_error,
        std::function<void(const Error&)> record);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  void send_control(int peer, ConstBytes payload);
  std::optional<Control> take_control();
  std::optional<int> ended() const;                                          // the first peer that has said farewell
  void ask_for_answer(int peer) noexcept { say(peer, Word::question, {}); }  // to the roll call

  // Says that a transfer with the peer is under way, before it is: a farewell that comes meanwhile must know of it.
  // False where the peer has closed.
  bool reserve(int peer);
  void count_passed(int peer, bool is_send);  // one of these transfers
  // The connection for data to the peer is lost. Breaks the engine, with the reason where the peer has told one.
  void lose(int peer, std::string_view why) noexcept;
  void tell_failure(const Error& error) noexcept;

  // The beginning of the end: waits a while until the peers have heard that this worker ends. False if it had begun.
  bool say_farewells() noexcept;
  // The end: waits a while for the last words to pass, and until `is_settled`, then ends all threads' waits.
  void cut(const std::function<bool()>& is_settled) noexcept;

 private:
  enum class Word : std::uint8_t {
    control,
    failure,
    farewell,
    heard,
    question,
    answer
  };                 // the first byte of what is said
  struct Farewell {  // how many transfers have passed between the one who says it and the one who hears it
    std::uint64_t sent = 0, received = 0;
  };
  struct Link {  // to one peer; under mutex_, but for the line
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

  void listen(int peer) noexcept;
  bool hear(int peer, ConstBytes frame);  // false for what no worker sends, which does nothing
  bool hear_failure(int peer, ConstBytes payload);
  bool hear_farewell(int peer, ConstBytes payload);
  void say(int peer, Word word, ConstBytes payload) noexcept;
  void answer_farewell(int peer) noexcept;
  void fail_if_hopeless(int peer) noexcept;
  void lose_listener(int peer, std::string_view why) noexcept;
  void record_loss(int peer, std::string_view why) noexcept;
  bool has_closed(int peer);
  bool is_broken() const { return first_error_.is_there(); }
  Link& link(int peer) { return *links_[static_cast<std::size_t>(peer)]; }

  const std::unique_ptr<Lane> lane_;
  const int rank_, size_;
  Waiters& waiters_;
  Bell& bell_;
  RollCall& roll_call_;
  const FirstError& first_error_;
  const std::function<void(const Error&)> record_;
  std::atomic<bool> is_closing_ = false;
  static constexpr int kNobody = -1;
  std::atomic<int> ended_ = kNobody;

  std::mutex control_mutex_;
  std::deque<Control> controls_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; the own one is not used
};

}  // namespace flockstep::engines::c10d
