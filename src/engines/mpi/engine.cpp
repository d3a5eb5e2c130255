#include "engines/mpi/engine.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "base/check.h"
#include "engines/failure_message.h"
#include "engines/mpi/exchange.h"

namespace flockstep::engines::mpi {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPieceBytes = std::size_t{1} << 30;  // MPI counts in int: longer blocks travel in pieces
// On the communicator of control messages. A failure carries its code in the first byte, then its sentence.
constexpr int kControlTag = 0, kFarewellTag = 1, kFailureTag = 2;
constexpr base::Duration kLookUp = 500us;
constexpr base::Duration kPatienceForTheLast = 1s;  // of what a worker has sent before it ended
// Waits of one thread that are no further apart than this are one wait to its back-off: an agent that looks up from its
// wait every few milliseconds, and finds nothing, is idle all the same.
constexpr base::Duration kSameVigil = 10ms;

}  // namespace

class MpiEngine::RealAgent final : public Agent {
 public:
  RealAgent(MpiEngine& engine, const std::string& name, std::function<void()> body)
      : thread_([this, &engine, name, body = std::move(body)] {
          engine.run_agent(name, body);
          --engine.agents_;
          done_.store(true, std::memory_order_release);
          engine.bell_.ring();
        }) {}
  bool done() override { return done_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> done_ = false;
  std::jthread thread_;  // last: it is joined before anything that it uses goes
};

namespace {

std::size_t pieces_of(std::size_t bytes) {
  return bytes == 0 ? 1 : (bytes + kPieceBytes - 1) / kPieceBytes;  // an empty block is a message too
}

template <typename Span, typename Post>
void in_pieces(Span bytes, const Post& post) {
  for (std::size_t left = pieces_of(bytes.size()); left > 0; --left) {
    const std::size_t length = std::min(bytes.size(), kPieceBytes);
    post(bytes.first(length));
    bytes = bytes.subspan(length);
  }
}

}  // namespace

void require_tags() {
  void* highest = nullptr;
  int is_known = 0;
  checked(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &is_known), "reading the highest tag");
  if (is_known && *static_cast<const int*>(highest) < kMaximalTag)
    throw Error(ErrorCode::unavailable,
                fmt::format("this MPI has tags up to {}, and Flockstep needs {}: use another transport",
                            *static_cast<const int*>(highest), kMaximalTag),
                "mpi");
}

MpiEngine::MpiEngine(MPI_Comm workers) : collectives_(workers), messages_(workers), controls_(workers) {
  checked(MPI_Comm_rank(collectives_.get(), &rank_), "reading the rank");
  checked(MPI_Comm_size(collectives_.get(), &size_), "reading the size");
}

Pending MpiEngine::start(MPI_Comm communicator, Tag tag, std::span<const Transfer> transfers) {
  require_usable();
  std::size_t pieces = 0;
  for (const auto& transfer : transfers) pieces += pieces_of(transfer.send.size() + transfer.receive.size());
  auto exchange = std::make_unique<Exchange>(*this, pieces);
  // Receives first: a block that finds its place waiting is not buffered on the way.
  for (const auto& transfer : transfers)
    if (!transfer.is_send)
      in_pieces(transfer.receive,
                [&](Bytes piece) { exchange->post_receive(communicator, transfer.peer, tag, piece); });
  for (const auto& transfer : transfers) {
    if (!transfer.is_send) continue;
    in_pieces(transfer.send, [&](ConstBytes piece) { exchange->post_send(communicator, transfer.peer, tag, piece); });
    if (transfer.peer != rank_) bytes_sent_.fetch_add(transfer.send.size(), std::memory_order_relaxed);
  }
  return exchange;
}

// The tag is the collective's number: workers that issue different collectives then wait in vain, until the deadline,
// instead of taking each other's bytes for what they are not.
Pending MpiEngine::start_collective(std::span<const Transfer> transfers) {
  return start(collectives_.get(), static_cast<Tag>(collective_count_++ % kMaximalTag), transfers);
}

Pending MpiEngine::send(int peer, Tag tag, ConstBytes data) {
  base::check(peer >= 0 && peer < size_ && tag >= 0 && tag <= kMaximalTag, "a peer and a tag within bounds");
  const Transfer transfer{peer, true, data, {}};
  return start(messages_.get(), tag, {&transfer, 1});
}

Pending MpiEngine::receive(int peer, Tag tag, Bytes data) {
  base::check(peer >= 0 && peer < size_ && tag >= 0 && tag <= kMaximalTag, "a peer and a tag within bounds");
  const Transfer transfer{peer, false, {}, data};
  return start(messages_.get(), tag, {&transfer, 1});
}

void MpiEngine::send_control(int peer, ConstBytes payload) {
  base::check(peer >= 0 && peer < size_ && payload.size() <= kControlBytes, "a peer and a control message in bounds");
  require_usable();
  reap_control_sends();
  require(post_control(peer, kControlTag, payload), "sending a control message");
  if (peer == rank_) bell_.ring();
}

// Our own copy stays until MPI has read it, which for so short a message is at once or nearly. Returns MPI's code
// instead of failing: a failure is told to the peers this way, and the lock would be taken twice.
int MpiEngine::post_control(int peer, int tag, ConstBytes payload) {
  ControlSend sent;
  if (!payload.empty()) sent.payload = memory_.allocate<std::byte>(payload.size(), "control messages");
  std::ranges::copy(payload, sent.payload.data());
  const std::lock_guard lock(control_mutex_);
  const int return_code = MPI_Isend(sent.payload.data(), static_cast<int>(payload.size()), MPI_BYTE, peer, tag,
                                    controls_.get(), &sent.request);
  if (return_code == MPI_SUCCESS) control_sends_.push_back(std::move(sent));
  return return_code;
}

// Drops the copies that MPI has read, oldest first. True when none is left.
bool MpiEngine::reap_control_sends() {
  int return_code = MPI_SUCCESS, complete = 1;
  {
    const std::lock_guard lock(control_mutex_);
    while (!control_sends_.empty() && return_code == MPI_SUCCESS && complete) {
      return_code = MPI_Test(&control_sends_.front().request, &complete, MPI_STATUS_IGNORE);
      if (return_code == MPI_SUCCESS && complete) control_sends_.pop_front();
    }
  }
  require(return_code, "sending a control message");
  return complete;
}

std::optional<Control> MpiEngine::take_control() {
  require_usable();
  std::vector<std::byte> payload;
  const auto status = probe_control(kControlTag, payload);
  if (!status) return std::nullopt;
  return Control{status->MPI_SOURCE, std::move(payload)};
}

// The matched probe makes this safe beside other threads that take. The receive does not block: so short a message
// arrives whole.
std::optional<MPI_Status> MpiEngine::probe_control(int tag, std::vector<std::byte>& payload) {
  int found = 0, length = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  require(MPI_Improbe(MPI_ANY_SOURCE, tag, controls_.get(), &found, &message, &status), "probing for control messages");
  if (!found) return std::nullopt;
  require(MPI_Get_count(&status, MPI_BYTE, &length), "reading a length");
  payload.resize(static_cast<std::size_t>(length));
  require(MPI_Mrecv(payload.data(), length, MPI_BYTE, &message, MPI_STATUS_IGNORE), "receiving a control message");
  return status;
}

base::Time MpiEngine::now() const { return base::Time(std::chrono::steady_clock::now() - origin_); }

// MPI moves large messages only while somebody calls it, so whoever sleeps during a transfer looks up now and then.
void MpiEngine::sleep(base::Duration duration) {
  const base::Time end = now() + duration;
  while (in_flight() > 0 && end - now() > kLookUp) {
    std::this_thread::sleep_for(kLookUp);
    int found = 0;
    require(MPI_Iprobe(MPI_ANY_SOURCE, kFailureTag, controls_.get(), &found, MPI_STATUS_IGNORE), "looking up");
  }
  if (const base::Duration left = end - now(); left > 0s) std::this_thread::sleep_for(left);
}

std::unique_ptr<Signal> MpiEngine::make_signal() { return std::make_unique<BellSignal>(bell_); }

std::unique_ptr<Agent> MpiEngine::spawn(const std::string& name, std::function<void()> body) {
  require_usable();
  int level = MPI_THREAD_SINGLE;
  require(MPI_Query_thread(&level), "asking for the thread level");
  if (level < MPI_THREAD_MULTIPLE)
    throw Error(ErrorCode::unavailable,
                "this algorithm needs an agent beside each worker: initialise MPI with "
                "MPI_Init_thread and MPI_THREAD_MULTIPLE",
                "mpi");
  ++agents_;
  return std::make_unique<RealAgent>(*this, name, std::move(body));
}

void MpiEngine::run_agent(const std::string& name, const std::function<void()>& body) noexcept {
  try {
    body();
  } catch (const Error& error) {
    record(error);
  } catch (const std::exception& error) {
    record(Error(ErrorCode::peer_lost, fmt::format("the agent '{}' of worker {} failed: {}", name, rank_, error.what()),
                 "mpi"));
  } catch (...) {
    record(Error(ErrorCode::peer_lost, fmt::format("the agent '{}' of worker {} failed", name, rank_), "mpi"));
  }
  const std::lock_guard lock(vigils_mutex_);
  vigils_.erase(std::this_thread::get_id());
}

MpiEngine::Vigil& MpiEngine::vigil() {
  const std::lock_guard lock(vigils_mutex_);
  return vigils_[std::this_thread::get_id()];
}

const BackOff& MpiEngine::back_off() {
  if (!is_worker()) return in_flight() > 0 ? kAgentTransferBackOff : kIdleAgentBackOff;
  return in_flight() == 0 && agents_ > 0 ? kBellBackOff : kTransferBackOff;
}

bool MpiEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  Vigil& vigil = this->vigil();
  if (now() - vigil.ended > kSameVigil) vigil.since = now();
  while (true) {
    const std::uint64_t rings = bell_.count();
    require_usable();
    if (ready()) {
      vigil.ended = base::Time::min();
      return true;
    }
    const base::Time time = now();
    if (time >= deadline) {
      vigil.ended = time;
      return false;
    }
    if (rings != vigil.rings) vigil.since = time;
    vigil.rings = rings;
    const base::Duration nap = std::min(back_off().nap(time - vigil.since), deadline - time);
    if (nap <= 0s) {
      std::this_thread::yield();
    } else {
      if (std::vector<std::byte> reason; probe_control(kFailureTag, reason)) fail_with_peer(reason);
      take_farewells();
      bell_.wait_past(rings,
                      origin_ + std::chrono::duration_cast<std::chrono::nanoseconds>((time + nap).time_since_epoch()));
    }
  }
}

void MpiEngine::take_farewells() {
  std::vector<std::byte> nothing;
  while (const auto status = probe_control(kFarewellTag, nothing)) {
    const std::lock_guard lock(farewells_mutex_);
    farewells_.emplace(status->MPI_SOURCE, now());
    any_has_ended_.store(true, std::memory_order_release);
  }
}

// A farewell may overtake what was sent before it, on another communicator.
bool MpiEngine::has_ended(int peer) {
  const std::lock_guard lock(farewells_mutex_);
  const auto found = farewells_.find(peer);
  return found != farewells_.end() && now() - found->second >= kPatienceForTheLast;
}

void MpiEngine::fail(const Error& error) {
  record(error);
  require_usable();
  __builtin_unreachable();
}

bool MpiEngine::record_only(const Error& error) noexcept {
  bool is_first = false;
  {
    const std::lock_guard lock(failure_mutex_);
    is_first = !failure_;
    // Not a copy: copies of an exception share their text, and this one is read by many threads.
    if (is_first) failure_.emplace(error.code(), error.what(), error.engine());
  }
  memory_.keep_for_ever();
  broken_.store(true, std::memory_order_release);
  bell_.ring();
  return is_first;
}

void MpiEngine::record(const Error& error) noexcept {
  if (!record_only(error)) return;
  const std::vector<std::byte> payload = failure_message(error);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && post_control(peer, kFailureTag, payload) != MPI_SUCCESS)
      return;  // MPI itself is lost: the peers will find out at their deadlines
}

// A peer's failure is passed on as it is. Nobody tells others of it: the peer has told everybody.
void MpiEngine::fail_with_peer(const std::vector<std::byte>& payload) {
  const std::optional<Error> failure = failure_in(payload, name());
  record_only(failure ? *failure : Error(ErrorCode::peer_lost, "a worker failed and did not say why", "mpi"));
  require_usable();
  __builtin_unreachable();
}

void MpiEngine::abandon(const std::exception& error) noexcept {
  const auto* const own = dynamic_cast<const Error*>(&error);
  record(Error(own ? own->code() : ErrorCode::peer_lost, error.what(), "mpi"));
}

void MpiEngine::require_usable() const {
  if (!broken()) [[likely]]
    return;
  const std::lock_guard lock(failure_mutex_);
  throw Error(failure_->code(), failure_->what(), failure_->engine());
}

void MpiEngine::require(int return_code, std::string_view what) {
  if (return_code != MPI_SUCCESS) [[unlikely]]
    fail(error_of(return_code, fmt::format("worker {}: {}", rank_, what)));
}

// Every worker says farewell to every other after its last control message, and takes what comes until it has heard all
// farewells. Without that a late message could reach a communicator that is freed already, and MPI hands out the number
// of a freed one to the next run.
void MpiEngine::close(base::Duration patience) {
  for (int peer = 0; peer < size_; ++peer) require(post_control(peer, kFarewellTag, {}), "saying farewell");
  const auto missing = [&] {
    std::vector<int> ranks;
    const std::lock_guard lock(farewells_mutex_);
    for (int peer = 0; peer < size_; ++peer)
      if (!farewells_.contains(peer)) ranks.push_back(peer);
    return ranks;
  };
  std::vector<std::byte> late;
  const bool heard_all = wait_until(
      [&] {
        take_farewells();
        while (probe_control(kControlTag, late)) {
        }
        if (probe_control(kFailureTag, late)) fail_with_peer(late);
        return reap_control_sends() && missing().empty();
      },
      now() + patience);
  if (!heard_all)
    fail(Error(ErrorCode::deadline, late_sentence(missing(), "the end of the run", rank_, patience), "mpi"));
  for (Communicator& group : groups_) group.free();
  collectives_.free();
  messages_.free();
  controls_.free();
}

std::function<void(std::span<float>)> MpiEngine::plain_group_all_reduce(int group) {
  require_usable();
  const Communicator& communicator = groups_.emplace_back(collectives_.get(), group);
  return [this, &communicator](std::span<float> values) { plain_all_reduce(communicator, values); };
}

void MpiEngine::plain_all_reduce(const Communicator& communicator, std::span<float> values) {
  require_usable();
  base::check(values.size() <= INT_MAX, "no more numbers than MPI can count");
  require(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                        communicator.get()),
          "MPI_Allreduce");
}

}  // namespace flockstep::engines::mpi
