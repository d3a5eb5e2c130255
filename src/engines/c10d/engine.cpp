#include "engines/c10d/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "engines/failure_message.h"
#include "engines/missing.h"

namespace flockstep::engines::c10d {
namespace {

using namespace std::chrono_literals;

}  // namespace

class C10dEngine::Transfers final : public Operation, public NamesMissing {
 public:
  Transfers(C10dEngine& engine, std::shared_ptr<Exchange> exchange) : engine_(engine), exchange_(std::move(exchange)) {}
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Gloo cannot take back a receive: its bytes would come and find no place. What is left ends before the bytes can go.
  ~Transfers() override {
    if (exchange_->complete()) return;
    engine_.record(engine_.error(
        ErrorCode::peer_lost,
        fmt::format("worker {} ended in the midst of a transfer, or gave it up; restart the job", engine_.rank_)));
    while (!exchange_->ended()) engine_.wait_quietly([&] { return exchange_->ended(); }, 1s);
  }

  bool done() override {
    if (exchange_->complete()) return true;
    engine_.require_usable();
    return false;
  }

  // Its own turn may not have come: then whoever holds up those before it.
  std::vector<int> missing() override {
    if (const int peer = exchange_->awaited(); peer >= 0) return {peer};
    const std::lock_guard lock(engine_.failure_mutex_);
    for (const auto& exchange : engine_.exchanges_)
      if (const int peer = exchange->awaited(); peer >= 0) return {peer};
    return {};
  }

 private:
  C10dEngine& engine_;
  std::shared_ptr<Exchange> exchange_;
};

class C10dEngine::RealAgent final : public Agent {
 public:
  RealAgent(C10dEngine& engine, const std::string& name, std::function<void()> body)
      : thread_([this, &engine, name, body = std::move(body)] {
          engine.run_agent(name, body);
          done_.store(true, std::memory_order_release);
          engine.bell_.ring();
        }) {}
  bool done() override { return done_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> done_ = false;
  std::jthread thread_;  // last: it is joined before anything that it uses goes
};

C10dEngine::C10dEngine(Lanes data, std::unique_ptr<Lane> control)
    : data_(std::move(data)),
      control_(std::move(control)),
      rank_(control_->rank()),
      size_(control_->size()),
      loopback_(bell_, [this](std::size_t expected, std::size_t sent) {
        fail(error(ErrorCode::mismatch, fmt::format("worker {} expected {} bytes of itself and sent {}; give both ends "
                                                    "the same size",
                                                    rank_, expected, sent)));
      }) {
  base::check(!data_.empty(), "a lane for data");
  for (const auto& lane : data_)
    base::check(lane->rank() == rank_ && lane->size() == size_, "lanes over the same workers");
  for (int peer = 0; peer < size_; ++peer) links_.push_back(std::make_unique<Link>(waiters_));
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) waiters_.run([this, peer] { listen(peer); });
}

// The number tells collectives apart: workers that issue different ones then wait in vain, until the deadline, instead
// of taking each other's bytes for what they are not. One thread waits for all, since they end in their order.
Pending C10dEngine::start_collective(std::span<const Transfer> transfers) {
  auto exchange = post(Kind::collective, static_cast<Tag>(collective_count_++ % kMaximalTag), transfers);
  collectives_.run([this, exchange] { finish(*exchange); });
  return std::make_unique<Transfers>(*this, std::move(exchange));
}

Pending C10dEngine::send(int peer, Tag tag, ConstBytes data) {
  base::check(peer >= 0 && peer < size_ && tag >= 0 && tag <= kMaximalTag, "a peer and a tag within bounds");
  require_usable();
  if (peer == rank_) return loopback_.send(tag, data);
  const Transfer transfer{peer, true, data, {}};
  auto exchange = post(Kind::message, tag, {&transfer, 1});
  waiters_.run([this, exchange] { finish(*exchange); });
  return std::make_unique<Transfers>(*this, std::move(exchange));
}

Pending C10dEngine::receive(int peer, Tag tag, Bytes data) {
  base::check(peer >= 0 && peer < size_ && tag >= 0 && tag <= kMaximalTag, "a peer and a tag within bounds");
  require_usable();
  if (peer == rank_) return loopback_.receive(tag, data);
  const Transfer transfer{peer, false, {}, data};
  auto exchange = post(Kind::message, tag, {&transfer, 1});
  waiters_.run([this, exchange] { finish(*exchange); });
  return std::make_unique<Transfers>(*this, std::move(exchange));
}

std::shared_ptr<Exchange> C10dEngine::post(Kind kind, Tag number, std::span<const Transfer> transfers) {
  require_usable();
  reserve(transfers);
  std::shared_ptr<Exchange> exchange;
  int peer = rank_;
  try {
    exchange = std::make_shared<Exchange>(data_, kind, number, transfers, peer);
  } catch (const std::exception& failure) {
    lose(peer, failure.what(), false);
    require_usable();
  }
  base::check(exchange != nullptr, "a lost connection that breaks the engine");
  for (const Transfer& transfer : transfers)
    if (transfer.is_send) bytes_sent_.fetch_add(transfer.send.size(), std::memory_order_relaxed);
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) {
      exchanges_.push_back(exchange);
      return exchange;
    }
  }
  exchange->end(false);
  require_usable();
  return nullptr;
}

// Says that transfers are under way, before they are: a farewell that comes meanwhile must know of them.
void C10dEngine::reserve(std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers) {
    bool is_gone = false;
    {
      const std::lock_guard lock(links_mutex_);
      is_gone = link(transfer.peer).farewell.has_value();
      if (!is_gone) ++link(transfer.peer).under_way;
    }
    if (is_gone)
      fail(error(ErrorCode::peer_lost, fmt::format("worker {} needs worker {}, which has closed; close workers only "
                                                   "when all have done the same steps",
                                                   rank_, transfer.peer)));
  }
}

// Blocks, on a thread of its own. In sequence is exact: the operation is done when its last part is.
void C10dEngine::finish(Exchange& exchange) noexcept {
  const bool complete = std::ranges::all_of(exchange.parts(), [&](const auto& part) {
    exchange.awaited() = part.peer;
    return pass(part);
  });
  exchange.awaited() = -1;
  exchange.end(complete);
  {
    const std::lock_guard lock(failure_mutex_);
    exchanges_.remove_if([&](const auto& each) { return each.get() == &exchange; });
  }
  bell_.ring();
}

bool C10dEngine::pass(const Exchange::Part& part) {
  try {
    if (!part.transit->wait()) return false;
  } catch (const std::exception& failure) {
    lose(part.peer, failure.what(), false);
    return false;
  }
  if (!part.head.empty())
    if (const std::uint64_t length = Exchange::unpack(part); length != part.block.size()) {
      record(error(ErrorCode::mismatch,
                   fmt::format("worker {} expected {} bytes and worker {} sent {}; give every worker the same sizes",
                               rank_, part.block.size(), part.peer, length)));
      return false;
    }
  if (part.ends_transfer) count(part);
  return true;
}

void C10dEngine::count(const Exchange::Part& part) {
  {
    const std::lock_guard lock(links_mutex_);
    Link& link = this->link(part.peer);
    --link.under_way;
    ++(part.is_send ? link.passed.sent : link.passed.received);
    if (!link.farewell) return;
  }
  answer_farewell(part.peer);
  fail_if_hopeless(part.peer);
}

void C10dEngine::sleep(base::Duration duration) {
  if (duration > 0s) std::this_thread::sleep_for(duration);
}

std::unique_ptr<Agent> C10dEngine::spawn(const std::string& name, std::function<void()> body) {
  require_usable();
  return std::make_unique<RealAgent>(*this, name, std::move(body));
}

void C10dEngine::run_agent(const std::string& name, const std::function<void()>& body) noexcept {
  try {
    body();
  } catch (const Error& failure) {
    record(failure);
  } catch (const std::exception& failure) {
    record(error(ErrorCode::peer_lost,
                 fmt::format("the agent '{}' of worker {} failed: {}", name, rank_, failure.what())));
  } catch (...) {
    record(error(ErrorCode::peer_lost, fmt::format("the agent '{}' of worker {} failed", name, rank_)));
  }
}

bool C10dEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  while (true) {
    const std::uint64_t rings = bell_.count();
    require_usable();
    if (ready()) return true;
    if (now() >= deadline) return false;
    // A deadline may lie further away than the clock can count.
    const base::Duration left = std::min<base::Duration>(deadline - now(), 1h);
    bell_.wait_past(rings,
                    std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(left));
  }
}

// For threads that wait although the engine may be broken.
void C10dEngine::wait_quietly(const std::function<bool()>& ready, base::Duration patience) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(patience);
  while (true) {
    const std::uint64_t rings = bell_.count();
    if (ready() || std::chrono::steady_clock::now() >= end) return;
    bell_.wait_past(rings, end);
  }
}

void C10dEngine::fail(const Error& error) {
  record(error);
  require_usable();
  __builtin_unreachable();
}

void C10dEngine::require_usable() const {
  if (!is_broken()) [[likely]]
    return;
  const std::lock_guard lock(failure_mutex_);
  // Not a copy: copies of an exception share their text, and this one is read by many threads.
  throw Error(failure_->code(), failure_->what(), failure_->engine());
}

void C10dEngine::record(const Error& error) noexcept {
  if (!note(error)) return;
  memory_.keep_for_ever();
  const std::vector<std::byte> payload = failure_message(error);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) say(peer, Word::failure, payload);
  end_transfers();
}

bool C10dEngine::note(const Error& error) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) return false;
    failure_.emplace(error.code(), error.what(), error.engine());
    is_failing_ = true;
    is_broken_.store(true, std::memory_order_release);
  }
  bell_.ring();
  return true;
}

// All threads that wait for them go on. The connections are closed, since bytes may come for aborted receives.
void C10dEngine::end_transfers() noexcept {
  std::list<std::shared_ptr<Exchange>> exchanges;
  {
    const std::lock_guard lock(failure_mutex_);
    exchanges = exchanges_;
  }
  for (const auto& exchange : exchanges) exchange->abort();
  for (const auto& lane : data_) lane->cut();
  is_failing_ = false;
  bell_.ring();
}

}  // namespace flockstep::engines::c10d
