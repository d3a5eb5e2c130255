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
  bool done() override { return progress_->remaining.load(std::memory_order_acquire) == 0; }
  std::vector<int> missing() override { return world_.missing(*progress_); }
  std::optional<int> gone() override { return world_.gone(*progress_); }

 private:
  ThreadsWorld& world_;
  std::shared_ptr<Progress> progress_;
};

class ThreadsAgent final : public Agent {
 public:
  ThreadsAgent(ThreadsWorld& world, int rank, const std::string& name, std::function<void()> body)
      : world_(world), rank_(rank), id_(world.scheduler().announce()), thread_([this, name, body = std::move(body)] {
          world_.scheduler().enter(id_);
          try {
            body();
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
    world_.fail(
        Error(ErrorCode::peer_lost, fmt::format("agent {} of worker {} failed: {}", name, rank_, why), world_.name()));
  }

  ThreadsWorld& world_;
  const int rank_;
  const int id_;
  std::atomic<bool> done_{false};
  std::thread thread_;  // last: it uses the others
};

}  // namespace

Pending ThreadsEngine::start(Meeting::Kind kind, std::uint64_t tag, std::span<const Transfer> transfers) {
  world_.throw_if_broken();
  auto progress = std::make_shared<Progress>(rank_);
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

Pending ThreadsEngine::send(int peer, Tag tag, ConstBytes data) {
  check_message(peer, tag);
  const Transfer transfer{peer, true, data, {}};
  return start(Meeting::Kind::message, static_cast<std::uint64_t>(tag), {&transfer, 1});
}

Pending ThreadsEngine::receive(int peer, Tag tag, Bytes data) {
  check_message(peer, tag);
  const Transfer transfer{peer, false, {}, data};
  return start(Meeting::Kind::message, static_cast<std::uint64_t>(tag), {&transfer, 1});
}

void ThreadsEngine::send_control(int peer, ConstBytes payload) {
  check_control(peer, payload);
  world_.throw_if_broken();
  world_.send_control(peer, {rank_, {payload.begin(), payload.end()}});
  world_.scheduler().step();
}

void ThreadsEngine::sleep(base::Duration duration) {
  wait_until([] { return false; }, now() + duration);
}

std::unique_ptr<Signal> ThreadsEngine::make_signal() { return std::make_unique<BellSignal>(world_.bell(rank_)); }

std::unique_ptr<Agent> ThreadsEngine::spawn(const std::string& name, std::function<void()> body) {
  return std::make_unique<ThreadsAgent>(world_, rank_, name, std::move(body));
}

bool ThreadsEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  world_.throw_if_broken();
  bool met = false;  // ready() may have side effects, so what it said counts even if the world breaks meanwhile
  const auto met_or_broken = [&] { return (met = ready()) || world_.is_broken(); };
  world_.scheduler().wait_until(world_.bell(rank_), met_or_broken, deadline);
  if (!met) world_.throw_if_broken();
  return met;
}

void ThreadsEngine::fail(const Error& error) {
  world_.fail(error);
  world_.throw_if_broken();
  throw error;
}

}  // namespace flockstep::engines::threads
