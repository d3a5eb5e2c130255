// A worker that is a process of MPI. Agents need MPI_THREAD_MULTIPLE: they use MPI beside the worker.
//
// Three communicators keep collectives, messages and control messages from matching each other. A failure of one worker
// reaches the others as a control message that they look for while they wait. Locks: none of the engine's is held while
// another is taken or a caller's code runs; those inside Memory and MPI are innermost.
#pragma once

#include <deque>
#include <map>
#include <thread>

#include "engines/mpi/back_off.h"
#include "engines/mpi/handles.h"
#include "engines/process_engine.h"

namespace flockstep::engines::mpi {

// Throws Error{unavailable} where this MPI has fewer tags than engines use.
void require_tags();

class MpiEngine final : public ProcessEngine {
 public:
  explicit MpiEngine(MPI_Comm workers);  // collective over it; the calling thread is the worker's own
  ~MpiEngine() override = default;
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  std::string_view name() const override { return "mpi"; }

  Pending send(int peer, Tag tag, ConstBytes data) override;
  Pending receive(int peer, Tag tag, Bytes data) override;
  void send_control(int peer, ConstBytes payload) override;
  std::optional<Control> take_control() override;

  void sleep(base::Duration duration) override;
  std::unique_ptr<Agent> spawn(const std::string& name, std::function<void()> body) override;
  bool wait_until(const std::function<bool()>& ready, base::Time deadline) override;

  // The end of a run in which nothing failed: waits so long for the peers' ends, then frees what the constructor made.
  void close(base::Duration patience);
  // The end of a run in which this worker failed otherwise than through the engine: lets the peers know. Returns once
  // MPI has taken what is said, or after a second.
  void abandon(const std::exception& error) noexcept;
  // At the end of a run that this worker survives after a failure: tells the peers of the failure unless it has.
  void tell_what_is_untold() noexcept;

 private:
  class Transfers;
  struct ControlSend {
    base::Buffer<std::byte> payload;  // from memory(), so that a broken engine leaves it to MPI
    MPI_Request request = MPI_REQUEST_NULL;
  };
  // How long a thread has been waiting in vain; goes on over waits that follow each other.
  struct Vigil {
    base::Time since{}, ended = base::Time::min();
    std::uint64_t rings = 0;
  };

  Pending start_collective(std::span<const Transfer> transfers) override;
  std::optional<MPI_Status> probe_control(int tag, std::vector<std::byte>& payload);
  [[nodiscard]] int post_control(int peer, int tag, ConstBytes payload);
  bool reap_control_sends();
  void hear();  // what peers say beside data and control messages
  void take_farewells();
  void ask_for_answer(int peer) override;
  void advance_collectives();
  bool has_ended(int peer);  // and not just now
  void record(const Error& error) noexcept override;
  bool keep_and_record(const Error& error) noexcept;
  // Of a failure that is the effect of an exception under way: the peers hear of that one, if it ends the run, or of
  // this failure with the worker's next wait.
  void record_before_cause(const Error& error) noexcept;
  void tell(const Error& error) noexcept;
  [[noreturn]] void fail_with_peer(const std::vector<std::byte>& payload);
  void leave();                                          // of an agent's thread
  void require(int return_code, std::string_view what);  // as checked(), and breaks the engine
  Vigil& vigil();
  bool is_worker() const { return std::this_thread::get_id() == worker_thread_; }
  std::atomic<int>& in_flight() { return is_worker() ? in_flight_of_worker_ : in_flight_of_agents_; }
  const BackOff& back_off();

  const std::thread::id worker_thread_ = std::this_thread::get_id();
  Communicator collectives_, messages_, controls_;
  std::vector<Transfers*> in_waves_;  // of which sends are still held back; the worker's own thread only
  // Operations that are not known to be done, by who started them.
  std::atomic<int> in_flight_of_worker_ = 0, in_flight_of_agents_ = 0;
  std::atomic<int> agents_ = 0;  // running

  std::atomic<bool> is_untold_ = false;  // the failure that has broken the engine

  std::mutex control_mutex_;
  std::deque<ControlSend> control_sends_;  // oldest first

  mutable std::mutex farewells_mutex_;
  std::map<int, base::Time> farewells_;  // when each peer's was heard
  std::atomic<bool> any_has_ended_ = false;

  std::mutex vigils_mutex_;
  std::map<std::thread::id, Vigil> vigils_;  // each is used by its own thread only
};

}  // namespace flockstep::engines::mpi
