#include "engines/mesh/engine.h"

#include <fmt/core.h>

#include "base/check.h"
#include "engines/failure_message.h"

namespace flockstep::engines::mesh {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kPatienceAtEnd{1};
constexpr std::size_t kMostControls = 1 << 16;  // that nobody takes

const MeshOptions& checked(const MeshOptions& options) {
  options.check();
  return options;
}

}  // namespace

class MeshEngine::PendingExchange final : public Operation {
 public:
  // `waves_of` is the number of a collective that comes in waves.
  PendingExchange(MeshEngine& engine, std::shared_ptr<Exchange> exchange, std::optional<std::uint64_t> waves_of = {})
      : engine_(engine), exchange_(std::move(exchange)), waves_of_(waves_of) {}
  PendingExchange(const PendingExchange&) = delete;
  PendingExchange& operator=(const PendingExchange&) = delete;

  // The hub ends it as soon as nobody touches the bytes: at the latest when the peer's silence has lasted too long.
  ~PendingExchange() override {
    if (exchange_->has_ended()) return;
    withdraw();
    while (!engine_.bell().wait_for([&] { return exchange_->has_ended(); }, 1s)) engine_.hub_.end_the_late();
  }

  bool done() override {
    if (exchange_->is_complete() || (is_withdrawn_ && exchange_->has_ended())) return true;
    engine_.require_usable();
    // A collective that a peer's failure has ended tells that failure, so that all workers name the same cause.
    if (exchange_->kind() == Kind::collective && exchange_->lost() && exchange_->told())
      engine_.fail(*exchange_->told());
    return false;
  }

  void withdraw() override {
    if (std::exchange(is_withdrawn_, true) || exchange_->has_ended()) return;
    engine_.hub_.withdraw(exchange_);
  }

  std::vector<int> missing() override { return waves_of_ ? engine_.absent_from(*waves_of_) : exchange_->missing(); }

  std::optional<int> gone() override { return exchange_->is_complete() ? std::nullopt : exchange_->lost(); }

 private:
  MeshEngine& engine_;
  const std::shared_ptr<Exchange> exchange_;
  const std::optional<std::uint64_t> waves_of_;
  bool is_withdrawn_ = false;
};

MeshEngine::MeshEngine(const MeshOptions& options)
    : ProcessEngine(checked(options).rank, options.workers),
      options_(options),
      loopback_(bell(),
                [this](std::size_t expected, std::size_t sent) {
                  fail(error(ErrorCode::mismatch,
                             fmt::format("worker {} expected {} bytes of itself and sent {}; give both ends the same "
                                         "size",
                                         rank(), expected, sent)));
                }),
      hub_(options, *this) {}

Pending MeshEngine::start_collective(std::span<const Transfer> transfers) {
  const std::uint64_t number = roll_call().issue(owner());
  return std::make_unique<PendingExchange>(
      *this, start(Kind::collective, static_cast<Tag>(owner()) << 40 | static_cast<Tag>(number), transfers),
      comes_in_waves(transfers) ? std::optional(number) : std::nullopt);
}

Pending MeshEngine::send(int peer, Tag tag, ConstBytes data) {
  require_usable();
  return peer == rank() ? loopback_.send(tag, data) : start_message(peer, tag, {peer, true, data, {}});
}

Pending MeshEngine::receive(int peer, Tag tag, Bytes data) {
  require_usable();
  return peer == rank() ? loopback_.receive(tag, data) : start_message(peer, tag, {peer, false, {}, data});
}

Pending MeshEngine::start_message(int peer, Tag tag, const Transfer& transfer) {
  base::check(peer >= 0 && peer < kMostRanks && tag >= 0 && tag <= kMaximalLongTag, "a peer and a tag within bounds");
  return std::make_unique<PendingExchange>(*this, start(Kind::message, tag, {&transfer, 1}));
}

std::shared_ptr<Exchange> MeshEngine::start(Kind kind, Tag number, std::span<const Transfer> transfers) {
  require_usable();
  for (const Transfer& transfer : transfers)
    if (transfer.is_send) count_sent(transfer.send.size());
  auto exchange = std::make_shared<Exchange>(bell(), kind, number, transfers);
  if (!transfers.empty()) hub_.start(exchange);
  return exchange;
}

void MeshEngine::send_control(int peer, ConstBytes payload) {
  base::check(peer >= 0 && peer < kMostRanks && payload.size() <= kControlBytes,
              "a peer and a control message in bounds");
  require_usable();
  if (peer != rank()) return hub_.send_control(peer, payload);
  {
    const std::lock_guard lock(controls_mutex_);
    controls_.push_back({peer, {payload.begin(), payload.end()}, Control::What::message, incarnation()});
  }
  bell().ring();
}

std::optional<Control> MeshEngine::take_control() {
  require_usable();
  const std::lock_guard lock(controls_mutex_);
  if (controls_.empty()) return {};
  Control taken = std::move(controls_.front());
  controls_.pop_front();
  return taken;
}

// Those that tell of connections always find a place: there are as many as connections.
bool MeshEngine::hear(Control control) {
  {
    const std::lock_guard lock(controls_mutex_);
    if (control.what == Control::What::message && controls_.size() >= kMostControls) return false;
    controls_.push_back(std::move(control));
  }
  bell().ring();
  return true;
}

bool MeshEngine::hear_answer(int peer, ConstBytes payload) {
  if (peer >= size()) return false;  // nobody asks those who joined later
  const bool is_sound = take_answer(peer, payload);
  bell().ring();
  return is_sound;
}

void MeshEngine::begin_again(Incarnation next) {
  require_usable();
  hub_.begin_again(next);
}

// A store that has gone cannot know better than this worker.
std::optional<std::string> MeshEngine::refusal_to_begin(std::int64_t steps) {
  try {
    return mesh::refusal_to_begin(options_.store_address(), rank(), steps);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unavailable) throw;
    return std::nullopt;
  }
}

// Where the launcher has gone there is nothing to tell; where it has not, it hears the end of this process, too.
void MeshEngine::tell_end() noexcept {
  try {
    StoreAddress store = options_.store_address();
    store.patience = kPatienceAtEnd;
    mesh::tell_end(store, rank());
  } catch (const std::exception&) {
  }
}

// Only this worker's engine breaks; the others hear why, and go on.
void MeshEngine::record(const Error& error) noexcept {
  if (record_here(error)) hub_.leave(failure_message(error));
}

void MeshEngine::close() noexcept {
  if (is_closed_.exchange(true)) return;
  record_here(error(ErrorCode::unavailable, fmt::format("worker {} has been closed", rank())));
  hub_.end();
}

std::unique_ptr<Engine> make_engine(const MeshOptions& options) { return std::make_unique<MeshEngine>(options); }

}  // namespace flockstep::engines::mesh
