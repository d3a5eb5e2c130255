// A worker that is a member of a PyTorch process group.
//
// Transfers can only be waited for by blocking, so threads of the engine's own do: one after the other for collectives,
// which come in the same order everywhere; one each for messages, which may end in any order; and one per peer for what
// is said beside data (links.h). The callers' threads wait for the bell alone. Locks: none is held while another is
// taken or a caller's code runs, but for those inside Memory and the lanes, which are innermost.
#pragma once

#include <list>

#include "engines/c10d/links.h"
#include "engines/c10d/transfers.h"
#include "engines/c10d/waiters.h"
#include "engines/loopback.h"
#include "engines/process_engine.h"

namespace flockstep::engines::c10d {

class C10dEngine final : public ProcessEngine {
 public:
  C10dEngine(Lanes data, std::unique_ptr<Lane> control);
  ~C10dEngine() override { close(); }
  C10dEngine(const C10dEngine&) = delete;
  C10dEngine& operator=(const C10dEngine&) = delete;

  std::string_view name() const override { return "c10d"; }

  Pending send(int peer, Tag tag, ConstBytes data) override;
  Pending receive(int peer, Tag tag, Bytes data) override;
  void send_control(int peer, ConstBytes payload) override;
  std::optional<Control> take_control() override;
  std::optional<int> ended() const override { return links_.ended(); }

  // As Attachment's.
  void close() noexcept;

 private:
  class PendingTransfers;

  Pending start_collective(std::span<const Transfer> transfers) override;
  Pending start_message(Tag tag, const Transfer& transfer);
  std::shared_ptr<Transfers> post(Kind kind, Tag number, std::span<const Transfer> transfers);
  void reserve(std::span<const Transfer> transfers);
  void finish(Transfers& transfers) noexcept;
  bool pass(const Transfers::Piece& piece);
  bool post_sends_after(Transfers& transfers, std::size_t piece);
  void forget(const Transfers& transfers);

  void ask_for_answer(int peer) override { links_.ask_for_answer(peer); }
  void record(const Error& error) noexcept override;
  void end_transfers() noexcept;  // all of a broken engine's

  const Lanes data_;
  Loopback loopback_;

  std::mutex under_way_mutex_;
  std::list<std::shared_ptr<Transfers>> under_way_;
  std::atomic<bool> transfers_have_ended_ = false;  // all of a broken engine's

  Waiters waiters_;
  WaitingLine collectives_{waiters_};
  Links links_;  // last: its threads use the others
};

}  // namespace flockstep::engines::c10d
