// What the workers of one process share: a table where the two ends of a message meet, control queues, bells, and the
// error that ended it all. Lock order: connections, then an inbox; no other mutex is held while another is taken.
#pragma once

#include <atomic>
#include <compare>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "engines/first_error.h"
#include "engines/pairwise.h"
#include "engines/threads/connections.h"
#include "engines/threads/scheduler.h"

namespace flockstep::engines::threads {

// The transfers of one operation that have not been copied yet. Owned by the operation and by the ends it posted.
struct Progress {
  Progress(int worker, std::uint32_t owner) : rank(worker), owner(owner) {}
  const int rank;
  const std::uint32_t owner;  // see Engine::issue_for()
  std::atomic<int> remaining{0};
  std::atomic<int> copying{0};  // copies under way: the bytes may not be freed
  std::atomic<int> lost{-1};    // a peer that a transfer was under way with
};

// Messages meet when all of this is equal; several under one key match in the order of posting.
struct Meeting {
  enum class Kind { collective, message } kind;
  int from, to;
  std::uint64_t tag;
  auto operator<=>(const Meeting&) const = default;
};

class ThreadsWorld {
 public:
  // Where workers outlive their peers, connections between them end, one by one.
  ThreadsWorld(int size, std::string name, std::unique_ptr<Scheduler> scheduler, bool outlives_peers = false);

  int size() const { return static_cast<int>(bells_.size()); }
  const std::string& name() const { return name_; }
  Scheduler& scheduler() { return *scheduler_; }
  Bell& bell(int rank) { return bells_[static_cast<std::size_t>(rank)]; }
  Connections* connections() { return connections_.get(); }  // null where all are always connected

  // Posts one end. Whoever comes second copies, in the caller's thread, so nobody has to wait for a peer to wait.
  void post(const Meeting& meeting, const Transfer& transfer, const std::shared_ptr<Progress>& progress);
  // Takes back what has not been matched, and waits for copies under way.
  void withdraw(const std::shared_ptr<Progress>& progress);

  // Peers at whose ends the transfers of an operation wait.
  std::vector<int> missing(const Progress& progress) const;

  // The worker has returned: nobody need wait for it any more.
  void end(int rank);
  // A worker that has returned, or is lost, and that the operation waits for.
  std::optional<int> gone(const Progress& progress) const;

  void send_control(int to, Control control);  // from control.peer
  std::optional<Control> take_control(int rank);

  // ---- for connections ----
  void tell(int to, Control control);
  void forget_control(int rank);
  void lose_transfers(int rank, int peer);  // that are under way between the two

  // The first error stays; everybody waiting is woken to see it.
  void fail(const Error& error);
  bool is_broken() const { return first_error_.is_there(); }
  void throw_if_broken() const { first_error_.throw_if_any(); }

 private:
  struct Posted {
    Transfer transfer;
    std::shared_ptr<Progress> progress;
  };

  void copy(const Posted& a, const Posted& b);
  void take_back(const Progress& progress);
  void lose(Progress& progress, Meeting::Kind kind, int peer);  // while connections are held

  // What is meant for one worker, with a mutex of its own: in a collective P^2 ends are posted and may wait at a time.
  struct Inbox {
    mutable std::mutex mutex;
    std::multimap<Meeting, Posted> posted;  // those under one key in the order of posting
    std::deque<Control> control;
  };
  Inbox& inbox(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }

  std::string name_;
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<Bell> bells_;
  std::deque<Inbox> inboxes_;
  mutable std::mutex mutex_;     // of who has ended
  std::vector<bool> has_ended_;  // by rank
  std::atomic<bool> any_has_ended_{false};
  FirstError first_error_;
  std::unique_ptr<Connections> connections_;  // last: it tells workers of each other when it is made
};

}  // namespace flockstep::engines::threads
