#include "engines/mpi/engine.h"

#include <utility>

#include "engines/failure_message.h"
#include "engines/missing.h"
#include "engines/mpi/transfers.h"

namespace flockstep::engines::mpi {
namespace {

using namespace std::chrono_literals;

// On the communicator of control messages. A failure carries its code in the first byte, then its sentence.
constexpr int kControlTag = 0, kFarewellTag = 1, kFailureTag = 2, kQuestionTag = 3, kAnswerTag = 4;
constexpr base::Duration kLookUp = 500us;
constexpr base::Duration kPatienceForTheLast = 1s;  // of what a worker has sent before it ended
// Waits of one thread that are no further apart than this are one wait to its back-off: an agent that looks up from its
// wait every few milliseconds, and finds nothing, is idle all the same.
constexpr base::Duration kSameVigil = 10ms;

int number_of(int (*question)(MPI_Comm, int*), MPI_Comm communicator, std::string_view what) {
  int number = 0;
  checked(question(communicator, &number), what);
  return number;
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

MpiEngine::MpiEngine(MPI_Comm workers)
    : ProcessEngine(number_of(MPI_Comm_rank, workers, "reading the rank"),
                    number_of(MPI_Comm_size, workers, "reading the size")),
      collectives_(workers),
      messages_(workers),
      controls_(workers) {}

// The tag tells the collective's number and its owner: workers that issue different collectives then wait in vain,
// until one of them asks around, instead of taking each other's bytes for what they are not.
Pending MpiEngine::start_collective(std::span<const Transfer> transfers) {
  require_usable();
  const std::uint64_t number = roll_call().issue(owner());
  return std::make_unique<Transfers>(*this, collectives_.get(), RollCall::tag_of(number, owner()), transfers, number);
}

Pending MpiEngine::send(int peer, Tag tag, ConstBytes data) {
  check_message(peer, tag);
  require_usable();
  const Transfer transfer{peer, true, data, {}};
  return std::make_unique<Transfers>(*this, messages_.get(), tag, std::span(&transfer, 1));
}

Pending MpiEngine::receive(int peer, Tag tag, Bytes data) {
  check_message(peer, tag);
  require_usable();
  const Transfer transfer{peer, false, {}, data};
  return std::make_unique<Transfers>(*this, messages_.get(), tag, std::span(&transfer, 1), std::nullopt,
                                     tag == kQuietTag);
}

void MpiEngine::send_control(int peer, ConstBytes payload) {
  check_control(peer, payload);
  require_usable();
  reap_control_sends();
  require(post_control(peer, kControlTag, payload), "sending a control message");
  if (peer == rank()) bell().ring();
}

// Our own copy stays until MPI has read it, which for so short a message is at once or nearly. Returns MPI's code
// instead of failing: a failure is told to the peers this way, and the lock would be taken twice.
int MpiEngine::post_control(int peer, int tag, ConstBytes payload) {
  ControlSend sent;
  if (!payload.empty()) sent.payload = memory().allocate<std::byte>(payload.size(), "control messages");
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

// MPI moves large messages only while somebody calls it, so whoever sleeps during a transfer looks up now and then.
void MpiEngine::sleep(base::Duration duration) {
  const base::Time end = now() + duration;
  while (in_flight() > 0 && end - now() > kLookUp) {
    std::this_thread::sleep_for(kLookUp);
    int found = 0;
    require(MPI_Iprobe(MPI_ANY_SOURCE, kFailureTag, controls_.get(), &found, MPI_STATUS_IGNORE), "looking up");
    advance_collectives();
  }
  if (const base::Duration left = end - now(); left > 0s) std::this_thread::sleep_for(left);
}

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
  return ProcessEngine::spawn(name, [this, body = std::move(body)] {
    struct Leaving {
      MpiEngine& engine;
      ~Leaving() { engine.leave(); }
    } const leaving{*this};
    body();
  });
}

void MpiEngine::leave() {
  --agents_;
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
  tell_what_is_untold();
  Vigil& vigil = this->vigil();
  if (now() - vigil.ended > kSameVigil) vigil.since = now();
  while (true) {
    const std::uint64_t rings = bell().count();
    require_usable();
    advance_collectives();
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
      hear();
      bell().wait_past(
          rings, origin() + std::chrono::duration_cast<std::chrono::nanoseconds>((time + nap).time_since_epoch()));
    }
  }
}

// Peers wait for the later waves of a collective, whatever this worker waits for.
void MpiEngine::advance_collectives() {
  if (!is_worker() || in_waves_.empty()) return;
  for (Transfers* const transfers : std::vector(in_waves_)) transfers->done();
}

void MpiEngine::hear() {
  std::vector<std::byte> payload;
  if (probe_control(kFailureTag, payload)) fail_with_peer(payload);
  take_farewells();
  while (const auto status = probe_control(kQuestionTag, payload))
    require(post_control(status->MPI_SOURCE, kAnswerTag, roll_call().answer()), "answering");
  while (const auto status = probe_control(kAnswerTag, payload)) take_answer(status->MPI_SOURCE, payload);
}

void MpiEngine::ask_for_answer(int peer) { require(post_control(peer, kQuestionTag, {}), "asking"); }

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

// Kept before anybody can see that the engine is broken, and lets go of buffers.
bool MpiEngine::keep_and_record(const Error& error) noexcept {
  memory().keep_for_ever();
  return record_here(error);
}

void MpiEngine::record(const Error& error) noexcept {
  if (keep_and_record(error)) tell(error);
}

void MpiEngine::record_before_cause(const Error& error) noexcept {
  if (keep_and_record(error)) is_untold_ = true;
}

void MpiEngine::tell_what_is_untold() noexcept {
  if (!is_untold_.exchange(false)) return;
  try {
    require_usable();
  } catch (const Error& error) {
    tell(error);
  }
}

void MpiEngine::tell(const Error& error) noexcept {
  const std::vector<std::byte> payload = failure_message(error);
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && post_control(peer, kFailureTag, payload) != MPI_SUCCESS)
      return;  // MPI itself is lost: the peers will find out at their deadlines
}

// A peer's failure is passed on as it is. Nobody tells others of it: the peer has told everybody.
void MpiEngine::fail_with_peer(const std::vector<std::byte>& payload) {
  const std::optional<Error> failure = failure_in(payload, name());
  keep_and_record(failure ? *failure : error(ErrorCode::peer_lost, "a worker failed and did not say why"));
  require_usable();
  __builtin_unreachable();
}

// A mismatch names ranks itself, and the peers are about to find the same one.
void MpiEngine::abandon(const std::exception& error) noexcept {
  const auto* const own = dynamic_cast<const Error*>(&error);
  const bool is_mismatch = own && own->code() == ErrorCode::mismatch;
  const Error failure =
      is_mismatch ? Error(own->code(), own->what(), "mpi")
                  : this->error(ErrorCode::peer_lost, fmt::format("worker {} failed: {}", rank(), error.what()));
  if (!keep_and_record(failure) && !is_untold_.exchange(false)) return;
  tell(failure);
  const base::Time end = now() + kPatienceForTheLast;
  try {
    while (!reap_control_sends() && now() < end) std::this_thread::sleep_for(1ms);
  } catch (const Error&) {  // recorded
  }
}

void MpiEngine::require(int return_code, std::string_view what) {
  if (return_code != MPI_SUCCESS) [[unlikely]]
    fail(error_of(return_code, fmt::format("worker {}: {}", rank(), what)));
}

// Every worker says farewell to every other after its last control message, and takes what comes until it has heard all
// farewells. Without that a late message could reach a communicator that is freed already, and MPI hands out the number
// of a freed one to the next run.
void MpiEngine::close(base::Duration patience) {
  for (int peer = 0; peer < size(); ++peer) require(post_control(peer, kFarewellTag, {}), "saying farewell");
  const auto missing = [&] {
    std::vector<int> ranks;
    const std::lock_guard lock(farewells_mutex_);
    for (int peer = 0; peer < size(); ++peer)
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
  if (!heard_all) fail(error(ErrorCode::deadline, late_sentence(missing(), "the end of the run", rank(), patience)));
  collectives_.free();
  messages_.free();
  controls_.free();
}

}  // namespace flockstep::engines::mpi
