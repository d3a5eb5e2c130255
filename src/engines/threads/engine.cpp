#include "engines/threads/engine.h"

#include <fmt/core.h>

#include <thread>

#include "base/check.h"

namespace flockstep::engines::threads {
namespace {

class ThreadsOperation final : public Operation {
 public:
  ThreadsOperation(ThreadsWorld& world, std::shared_ptr<Progress> progress)
      : world_(world), progress_(std::move(progress)) {}
  ~ThreadsOperation() override {
    if (!done()) world_.withdraw(progress_);
  }
  // The copy that brings this to zero still holds `copying` for a moment, but touches none of the bytes any more.
  bool done() override { return is_withdrawn_ || progress_->remaining.load(std::memory_order_acquire) == 0; }
  void withdraw() override {
    if (done()) return;
    world_.withdraw(progress_);
    is_withdrawn_ = true;
  }
  std::vector<int> missing() override { return world_.missing(*progress_); }
  std::optional<int> gone() override { return world_.gone(*progress_); }

 private:
  ThreadsWorld& world_;
  std::shared_ptr<Progress> progress_;
  bool is_withdrawn_ = false;
};

class ThreadsAgent final : public Agent {
 public:
  ThreadsAgent(ThreadsWorld& world, int rank, const std::string& name, std::function<void()> body,
               std::function<void(const Error&)> on_failure)
      : world_(world),
        rank_(rank),
        on_failure_(std::move(on_failure)),
        id_(world.scheduler().announce()),
        thread_([this, name, body = std::move(body)] {
          world_.scheduler().enter(id_);
          try {
            body();
          } catch (const Lost&) {  // its worker leaves, too
          } catch (const std::exception& error) {
            fail(name, error.what());
          } catch (...) {
            fail(name, "an exception of an unknown kind");
          }
          done_.store(true, std::memory_order_release);
          world_.bell(rank_).ring();
          world_.scheduler().leave();
        }) {}

  ~ThreadsAgent() override {
    // In deterministic mode the agent needs its turns to come to an end, so joining alone would hang.
    while (!world_.scheduler().wait_until(
        world_.bell(rank_), [this] { return done(); }, world_.scheduler().now() + base::Duration(1))) {
    }
    thread_.join();
  }
  bool done() override { return done_.load(std::memory_order_acquire); }

 private:
  void fail(const std::string& name, std::string_view why) {
    on_failure_(
        Error(ErrorCode::peer_lost, fmt::format("agent {} of worker {} failed: {}", name, rank_, why), world_.name()));
  }

  ThreadsWorld& world_;
  const int rank_;
  const std::function<void(const Error&)> on_failure_;
  const int id_;
  std::atomic<bool> done_{false};
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void ThreadsEngine::begin_call() {
  if (life_) life_->call();
  world_.throw_if_broken();
}

Pending ThreadsEngine::start(Meeting::Kind kind, std::uint64_t tag, std::span<const Transfer> transfers) {
  begin_call();
  auto progress = std::make_shared<Progress>(rank_, kind == Meeting::Kind::collective ? owner() : 0);
  progress->remaining.store(static_cast<int>(transfers.size()), std::memory_order_relaxed);
  auto operation = std::make_unique<ThreadsOperation>(world_, progress);
  for (const Transfer& transfer : transfers) {
    const int from = transfer.is_send ? rank_ : transfer.peer, to = transfer.is_send ? transfer.peer : rank_;
    if (transfer.is_send && to != rank_) bytes_sent_.fetch_add(transfer.send.size(), std::memory_order_relaxed);
    world_.post({kind, from, to, tag}, transfer, progress);
  }
  world_.scheduler().step();
  return operation;
}

Pending ThreadsEngine::start_collective(std::span<const Transfer> transfers) {
  return start(Meeting::Kind::collective, collectives_++, transfers);
}

// Directly: all share one memory, so a way over others would only add their delays.
Pending ThreadsEngine::broadcast(Bytes data, int root) {
  base::check(root >= 0 && root < size(), "a root among the workers");
  std::vector<Transfer> transfers;
  if (rank_ != root) {
    transfers.push_back({root, false, {}, data});
  } else {
    for (int distance = 1; distance < size(); ++distance)
      transfers.push_back({(root + distance) % size(), true, data, {}});
  }
  return count_and_start(transfers);
}

Pending ThreadsEngine::barrier() {
  const std::vector<ConstBytes> send(static_cast<std::size_t>(size()));
  const std::vector<Bytes> receive(send.size());
  return all_to_all(send, receive, Traffic::figures);
}

Pending ThreadsEngine::send(int peer, Tag tag, ConstBytes data) { return start_message(tag, {peer, true, data, {}}); }

Pending ThreadsEngine::receive(int peer, Tag tag, Bytes data) { return start_message(tag, {peer, false, {}, data}); }

Pending ThreadsEngine::start_message(Tag tag, const Transfer& transfer) {
  base::check(!life_ || (tag >= 0 && tag <= kMaximalLongTag), "a tag within bounds");
  check_message(transfer.peer, life_ ? 0 : tag);
  return start(Meeting::Kind::message, static_cast<std::uint64_t>(tag), {&transfer, 1});
}

void ThreadsEngine::send_control(int peer, ConstBytes payload) {
  check_control(peer, payload);
  begin_call();
  world_.send_control(peer, {rank_, {payload.begin(), payload.end()}});
  world_.scheduler().step();
}

std::optional<Control> ThreadsEngine::take_control() {
  if (life_) life_->call();
  return world_.take_control(rank_);
}

void ThreadsEngine::begin_again(Incarnation next) {
  if (!life_) return;
  begin_call();
  life_->begin_again(next);
  world_.scheduler().step();
}

void ThreadsEngine::close() noexcept {
  if (life_ && !life_->is_over())
    life_->fail(Error(ErrorCode::unavailable, fmt::format("worker {} has been closed", rank_), world_.name()));
}

void ThreadsEngine::sleep(base::Duration duration) {
  wait_until([] { return false; }, now() + duration);
}

std::unique_ptr<Signal> ThreadsEngine::make_signal() { return std::make_unique<BellSignal>(world_.bell(rank_)); }

std::unique_ptr<Agent> ThreadsEngine::spawn(const std::string& name, std::function<void()> body) {
  if (life_) life_->call();
  return std::make_unique<ThreadsAgent>(world_, rank_, name, std::move(body), [this](const Error& error) {
    if (life_)
      life_->fail(error);
    else
      world_.fail(error);
  });
}

bool ThreadsEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  begin_call();
  bool met = false;  // ready() may have side effects, so what it said counts even if the world breaks meanwhile
  const auto is_over = [this] { return life_ && life_->is_over(); };
  const auto met_or_broken = [&] { return is_over() || (met = ready()) || world_.is_broken(); };
  world_.scheduler().wait_until(world_.bell(rank_), met_or_broken, deadline);
  if (is_over()) life_->require();
  if (!met) world_.throw_if_broken();
  return met;
}

void ThreadsEngine::fail(const Error& error) {
  if (life_) {
    life_->fail(error);
    life_->require();
    throw error;
  }
  world_.fail(error);
  world_.throw_if_broken();
  throw error;
}

}  // namespace flockstep::engines::threads
