// A worker with a connection to each of its peers, of which every one can end without the others.
//
// The hub's thread serves the connections and never waits for a caller; callers' threads hand operations over and wait
// for the bell. Locks: the controls' and the bell's, of which none is held while another is taken.
#pragma once

#include <deque>
#include <mutex>

#include "engines/loopback.h"
#include "engines/mesh/hub.h"
#include "engines/process_engine.h"
#include "engines/run_record.h"

namespace flockstep::engines::mesh {

class MeshEngine final : public ProcessEngine, public RunRecord, private Hub::Ears {
 public:
  explicit MeshEngine(const MeshOptions& options);
  ~MeshEngine() override { close(); }
  MeshEngine(const MeshEngine&) = delete;
  MeshEngine& operator=(const MeshEngine&) = delete;

  std::string_view name() const override { return "mesh"; }

  Pending send(int peer, Tag tag, ConstBytes data) override;
  Pending receive(int peer, Tag tag, Bytes data) override;
  void send_control(int peer, ConstBytes payload) override;
  std::optional<Control> take_control() override;

  bool outlives_peers() const override { return true; }
  Incarnation incarnation() const override { return hub_.incarnation(); }
  void begin_again(Incarnation next) override;

  std::optional<std::string> refusal_to_begin(std::int64_t steps) override;
  void tell_progress() override { hub_.tell_progress(); }
  void tell_end() noexcept override;

  // Before close(), where this worker fails: peers hear why.
  void abandon(const Error& error) noexcept { record(error); }
  // Leaves the run: peers see this worker lost. Waits and operations throw from then on. A second call does nothing.
  void close() noexcept override;

 private:
  class PendingExchange;

  Pending start_collective(std::span<const Transfer> transfers) override;
  Pending start_message(int peer, Tag tag, const Transfer& transfer);
  std::shared_ptr<Exchange> start(Kind kind, Tag number, std::span<const Transfer> transfers);
  void ask_for_answer(int peer) override { hub_.ask(peer); }
  void record(const Error& error) noexcept override;

  bool hear(Control control) override;
  void hear_failure(const Error& error) override { record(error); }
  std::vector<std::byte> answer() override { return roll_call().answer(); }
  bool hear_answer(int peer, ConstBytes payload) override;

  const MeshOptions options_;
  Loopback loopback_;
  std::mutex controls_mutex_;
  std::deque<Control> controls_;
  std::atomic<bool> is_closed_ = false;
  Hub hub_;  // last: its thread uses the others
};

}  // namespace flockstep::engines::mesh
