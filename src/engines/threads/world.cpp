#include "engines/threads/world.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "engines/missing.h"

namespace flockstep::engines::threads {

ThreadsWorld::ThreadsWorld(int size, std::string name, std::unique_ptr<Scheduler> scheduler, bool outlives_peers)
    : name_(std::move(name)),
      scheduler_(std::move(scheduler)),
      bells_(static_cast<std::size_t>(size)),
      inboxes_(static_cast<std::size_t>(size)),
      has_ended_(static_cast<std::size_t>(size)),
      connections_(outlives_peers ? std::make_unique<Connections>(*this) : nullptr) {}

void ThreadsWorld::post(const Meeting& meeting, const Transfer& transfer, const std::shared_ptr<Progress>& progress) {
  const Posted mine{transfer, progress};
  std::optional<Posted> other;
  std::unique_lock<std::mutex> held;
  if (connections_) {
    held = connections_->hold();
    if (progress->lost >= 0) return;
    if (connections_->is_lost(progress->rank, transfer.peer)) return lose(*progress, meeting.kind, transfer.peer);
  }
  {
    auto& [mutex, posted, control] = inbox(meeting.to);
    const std::lock_guard lock(mutex);
    const auto first = posted.lower_bound(meeting);
    if (first == posted.end() || first->first != meeting || first->second.transfer.is_send == transfer.is_send) {
      posted.emplace(meeting, mine);
      return;
    }
    other = std::move(first->second);
    posted.erase(first);
    ++other->progress->copying;  // under the mutex: withdraw() must see the end either posted or being copied
    ++mine.progress->copying;
  }
  if (held) held.unlock();
  copy(mine, *other);
}

void ThreadsWorld::copy(const Posted& a, const Posted& b) {
  const Posted& sender = a.transfer.is_send ? a : b;
  const Posted& receiver = a.transfer.is_send ? b : a;
  const ConstBytes from = sender.transfer.send;
  const Bytes to = receiver.transfer.receive;
  const bool is_of_one = sender.progress->owner == receiver.progress->owner;
  const bool fits = is_of_one && from.size() == to.size();
  if (fits && !from.empty()) std::memcpy(to.data(), from.data(), from.size());
  for (const Posted* end : {&sender, &receiver}) {
    // A collective of P workers has P^2 messages: its waiters are woken by their last one alone.
    const bool last = fits && end->progress->remaining.fetch_sub(1, std::memory_order_release) == 1;
    end->progress->copying.fetch_sub(1, std::memory_order_release);
    if (last || (connections_ && end->progress->lost >= 0)) bell(end->progress->rank).ring();
  }
  const int source = sender.progress->rank, target = receiver.progress->rank;
  if (!is_of_one)
    fail(Error(ErrorCode::mismatch, owners_sentence(source, sender.progress->owner, target, receiver.progress->owner),
               name_));
  else if (!fits)
    fail(Error(
        ErrorCode::mismatch,
        fmt::format(
            "worker {} sent {} bytes to worker {}, which expected {}: all workers must pass buffers of the same sizes",
            source, from.size(), target, to.size()),
        name_));
}

void ThreadsWorld::take_back(const Progress& progress) {
  for (auto& [mutex, posted, control] : inboxes_) {
    const std::lock_guard lock(mutex);
    std::erase_if(posted, [&](const auto& entry) { return entry.second.progress.get() == &progress; });
  }
}

void ThreadsWorld::withdraw(const std::shared_ptr<Progress>& progress) {
  take_back(*progress);
  while (progress->copying.load(std::memory_order_acquire) > 0) std::this_thread::yield();
}

std::vector<int> ThreadsWorld::missing(const Progress& progress) const {
  std::set<int> peers;
  for (const Inbox& inbox : inboxes_) {
    const std::lock_guard lock(inbox.mutex);
    for (const auto& [meeting, posted] : inbox.posted)
      if (posted.progress.get() == &progress) peers.insert(posted.transfer.peer);
  }
  return {peers.begin(), peers.end()};
}

// Whoever waits for it is woken. Who posts later looks for it before sleeping.
void ThreadsWorld::end(int rank) {
  {
    const std::lock_guard lock(mutex_);
    has_ended_[static_cast<std::size_t>(rank)] = true;
    any_has_ended_.store(true, std::memory_order_release);
  }
  std::set<int> waiting;
  for (const Inbox& inbox : inboxes_) {
    const std::lock_guard lock(inbox.mutex);
    for (const auto& [meeting, posted] : inbox.posted)
      if (posted.transfer.peer == rank) waiting.insert(posted.progress->rank);
  }
  for (const int each : waiting) bell(each).ring();
}

// What an ended one had posted was matched or withdrawn before it ended, so what still waits for it then waits in vain.
// Who has ended is asked first: a peer may both come and end while the inboxes are looked through.
std::optional<int> ThreadsWorld::gone(const Progress& progress) const {
  if (connections_) {
    const int lost = progress.lost;
    return lost >= 0 && progress.copying == 0 ? std::optional(lost) : std::nullopt;
  }
  if (!any_has_ended_.load(std::memory_order_acquire)) return std::nullopt;
  std::vector<bool> had_ended;
  {
    const std::lock_guard lock(mutex_);
    had_ended = has_ended_;
  }
  for (const int peer : missing(progress))
    if (had_ended[static_cast<std::size_t>(peer)]) return peer;
  return std::nullopt;
}

void ThreadsWorld::send_control(int to, Control control) {
  std::unique_lock<std::mutex> held;
  if (connections_) {
    held = connections_->hold();
    if (!connections_->is_met(control.peer, to)) return;
    control.incarnation = connections_->held_incarnation(control.peer);
  }
  tell(to, std::move(control));
}

void ThreadsWorld::tell(int to, Control control) {
  {
    const std::lock_guard lock(inbox(to).mutex);
    inbox(to).control.push_back(std::move(control));
  }
  bell(to).ring();
}

std::optional<Control> ThreadsWorld::take_control(int rank) {
  const std::lock_guard lock(inbox(rank).mutex);
  auto& queue = inbox(rank).control;
  if (queue.empty()) return std::nullopt;
  Control first = std::move(queue.front());
  queue.pop_front();
  return first;
}

void ThreadsWorld::forget_control(int rank) {
  const std::lock_guard lock(inbox(rank).mutex);
  inbox(rank).control.clear();
}

void ThreadsWorld::lose_transfers(int rank, int peer) {
  struct Found {
    std::shared_ptr<Progress> progress;
    Meeting::Kind kind;
    int peer;
  };
  std::vector<Found> lost;
  for (const int reader : {rank, peer}) {
    const std::lock_guard lock(inbox(reader).mutex);
    for (const auto& [meeting, posted] : inbox(reader).posted)
      if (std::minmax(meeting.from, meeting.to) == std::minmax(rank, peer))
        lost.push_back({posted.progress, meeting.kind, posted.transfer.peer});
  }
  for (const Found& each : lost) lose(*each.progress, each.kind, each.peer);
}

// One who is lost ends all of a collective, for all workers: so those who follow end because of the first.
void ThreadsWorld::lose(Progress& progress, Meeting::Kind kind, int peer) {
  const int cause = kind == Meeting::Kind::collective ? connections_->first_lost(progress.rank) : peer;
  int nobody = -1;
  if (!progress.lost.compare_exchange_strong(nobody, cause)) return;
  take_back(progress);
  bell(progress.rank).ring();
}

void ThreadsWorld::fail(const Error& error) {
  first_error_.record(error);
  for (auto& bell : bells_) bell.ring();
}

}  // namespace flockstep::engines::threads
