#include "engines/c10d/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engines/missing.h"

namespace flockstep::engines::c10d {
namespace {

using namespace std::chrono_literals;

}  // namespace

class C10dEngine::PendingTransfers final : public Operation {
 public:
  // `waves_of` is the number of a collective that comes in waves.
  PendingTransfers(C10dEngine& engine, std::shared_ptr<Transfers> transfers, std::optional<std::uint64_t> waves_of = {})
      : engine_(engine), transfers_(std::move(transfers)), waves_of_(waves_of) {}
  PendingTransfers(const PendingTransfers&) = delete;
  PendingTransfers& operator=(const PendingTransfers&) = delete;

  // Gloo cannot take back a receive: its bytes would come and find no place. What is left ends before the bytes can go.
  ~PendingTransfers() override {
    if (transfers_->complete()) return;
    engine_.record(engine_.error(
        ErrorCode::peer_lost,
        fmt::format("worker {} ended during a transfer, or cancelled it; restart the job", engine_.rank())));
    while (!engine_.bell().wait_for([&] { return transfers_->ended(); }, 1s)) {
    }
  }

  bool done() override {
    if (transfers_->complete()) return true;
    engine_.require_usable();
    return false;
  }

  // Its own turn may not have come: then whoever holds up those before it.
  std::vector<int> missing() override {
    if (waves_of_) return engine_.absent_from(*waves_of_);
    if (const int peer = transfers_->awaited(); peer >= 0) return {peer};
    const std::lock_guard lock(engine_.under_way_mutex_);
    for (const auto& transfers : engine_.under_way_)
      if (const int peer = transfers->awaited(); peer >= 0) return {peer};
    return {};
  }

 private:
  C10dEngine& engine_;
  std::shared_ptr<Transfers> transfers_;
  std::optional<std::uint64_t> waves_of_;
};

C10dEngine::C10dEngine(Lanes data, std::unique_ptr<Lane> control)
    : ProcessEngine(control->rank(), control->size()),
      data_(std::move(data)),
      loopback_(bell(),
                [this](std::size_t expected, std::size_t sent) {
                  fail(error(ErrorCode::mismatch,
                             fmt::format("worker {} expected {} bytes of itself and sent {}; give both ends the same "
                                         "size",
                                         rank(), expected, sent)));
                }),
      links_(std::move(control), waiters_, bell(), roll_call(), first_error(),
             [this](const Error& error) { record(error); }) {
  base::check(!data_.empty(), "a lane for data");
  for (const auto& lane : data_)
    base::check(lane->rank() == rank() && lane->size() == size(), "lanes over the same workers");
}

// The tag tells collectives apart: workers that issue different ones then wait in vain, until one of them asks around,
// instead of taking each other's bytes for what they are not. One thread waits for all, since they end in their order.
Pending C10dEngine::start_collective(std::span<const Transfer> transfers) {
  const std::uint64_t number = roll_call().issue(owner());
  auto posted = post(Kind::collective, RollCall::tag_of(number, owner()), transfers);
  collectives_.run([this, posted] { finish(*posted); });
  return std::make_unique<PendingTransfers>(*this, std::move(posted),
                                            comes_in_waves(transfers) ? std::optional(number) : std::nullopt);
}

Pending C10dEngine::send(int peer, Tag tag, ConstBytes data) {
  check_message(peer, tag);
  require_usable();
  return peer == rank() ? loopback_.send(tag, data) : start_message(tag, {peer, true, data, {}});
}

Pending C10dEngine::receive(int peer, Tag tag, Bytes data) {
  check_message(peer, tag);
  require_usable();
  return peer == rank() ? loopback_.receive(tag, data) : start_message(tag, {peer, false, {}, data});
}

Pending C10dEngine::start_message(Tag tag, const Transfer& transfer) {
  auto posted = post(Kind::message, tag, {&transfer, 1});
  waiters_.run([this, posted] { finish(*posted); });
  return std::make_unique<PendingTransfers>(*this, std::move(posted));
}

void C10dEngine::send_control(int peer, ConstBytes payload) {
  check_control(peer, payload);
  require_usable();
  links_.send_control(peer, payload);
}

std::optional<Control> C10dEngine::take_control() {
  require_usable();
  return links_.take_control();
}

// Whoever breaks the engine aborts what it finds under way: what is added later sees that it is broken.
std::shared_ptr<Transfers> C10dEngine::post(Kind kind, Tag number, std::span<const Transfer> transfers) {
  require_usable();
  reserve(transfers);
  std::shared_ptr<Transfers> posted;
  int peer = rank();
  try {
    posted = std::make_shared<Transfers>(data_, kind, number, transfers, peer);
  } catch (const std::exception& failure) {
    links_.lose(peer, failure.what());
    require_usable();
  }
  base::check(posted != nullptr, "a lost connection that breaks the engine");
  for (const Transfer& transfer : transfers)
    if (transfer.is_send) count_sent(transfer.send.size());
  {
    const std::lock_guard lock(under_way_mutex_);
    under_way_.push_back(posted);
  }
  if (is_broken()) {
    forget(*posted);
    posted->end(false);
    require_usable();
  }
  return posted;
}

void C10dEngine::reserve(std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers)
    if (!links_.reserve(transfer.peer)) fail(error(ErrorCode::peer_lost, gone_sentence(rank(), transfer.peer)));
}

// Blocks, on a thread of its own. In sequence is exact: the operation is done when its last piece is.
void C10dEngine::finish(Transfers& transfers) noexcept {
  bool complete = true;
  for (std::size_t piece = 0; complete && piece < transfers.pieces().size(); ++piece) {
    transfers.awaited() = transfers.pieces()[piece].peer;
    complete = pass(transfers.pieces()[piece]) && post_sends_after(transfers, piece);
  }
  transfers.awaited() = -1;
  transfers.end(complete);
  forget(transfers);
  bell().ring();
}

bool C10dEngine::post_sends_after(Transfers& transfers, std::size_t piece) {
  int peer = rank();
  try {
    return transfers.post_sends_after(piece, peer);
  } catch (const std::exception& failure) {
    links_.lose(peer, failure.what());
    return false;
  }
}

void C10dEngine::forget(const Transfers& transfers) {
  const std::lock_guard lock(under_way_mutex_);
  under_way_.remove_if([&](const auto& each) { return each.get() == &transfers; });
}

bool C10dEngine::pass(const Transfers::Piece& piece) {
  try {
    if (!piece.transit->wait()) return false;
  } catch (const std::exception& failure) {
    links_.lose(piece.peer, failure.what());
    return false;
  }
  if (!piece.head.empty())
    if (const std::uint64_t length = Transfers::unpack(piece); length != piece.block.size()) {
      record(error(ErrorCode::mismatch,
                   fmt::format("worker {} expected {} bytes and worker {} sent {}; give every worker the same sizes",
                               rank(), piece.block.size(), piece.peer, length)));
      return false;
    }
  if (piece.ends_transfer) links_.count_passed(piece.peer, piece.is_send);
  return true;
}

void C10dEngine::record(const Error& error) noexcept {
  if (!record_here(error)) return;
  memory().keep_for_ever();
  links_.tell_failure(error);
  end_transfers();
}

// All threads that wait for them go on. The connections are closed, since bytes may come for aborted receives.
void C10dEngine::end_transfers() noexcept {
  std::list<std::shared_ptr<Transfers>> under_way;
  {
    const std::lock_guard lock(under_way_mutex_);
    under_way = under_way_;
  }
  for (const auto& transfers : under_way) transfers->abort();
  for (const auto& lane : data_) lane->cut();
  transfers_have_ended_ = true;
  bell().ring();
}

void C10dEngine::close() noexcept {
  if (!links_.say_farewells()) return;
  if (record_here(error(ErrorCode::unavailable, fmt::format("worker {} has been closed", rank())))) end_transfers();
  links_.cut([this] { return transfers_have_ended_.load(); });
  waiters_.join();
}

}  // namespace flockstep::engines::c10d
