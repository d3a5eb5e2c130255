// One operation of the mpi engine: sends and receives that are tested until all are done.
#pragma once

#include <algorithm>
#include <exception>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "engines/mpi/engine.h"

namespace flockstep::engines::mpi {

// MPI runs all sends and receives whenever any is tested, so done() tests one at a time: the last in the list, which
// those of the earliest wave are.
class MpiEngine::Transfers final : public Operation {
 public:
  // `collective` is its number, of one that is.
  Transfers(MpiEngine& engine, MPI_Comm communicator, Tag tag, std::span<const Transfer> transfers,
            std::optional<std::uint64_t> collective = {}, bool is_quiet = false)
      : engine_(engine),
        in_flight_(engine.in_flight()),
        communicator_(communicator),
        tag_(tag),
        collective_(collective),
        is_quiet_(is_quiet),
        held_back_(transfers.begin(), transfers.end()),
        asks_around_(comes_in_waves(transfers)) {
    if (!is_quiet_) ++in_flight_;
    std::ranges::stable_sort(held_back_, {}, &Transfer::wave);
    // Receives first: a block that finds its place waiting is not buffered on the way.
    for (int wave = held_back_.empty() ? 0 : held_back_.back().wave; wave >= 0; --wave)
      for (const Transfer& transfer : held_back_)
        if (!transfer.is_send && transfer.wave == wave)
          in_pieces(transfer, transfer.receive, MPI_Irecv, "posting a receive");
    std::erase_if(held_back_, [](const Transfer& transfer) { return !transfer.is_send; });
    post_sends();
    has_waves_ = !held_back_.empty();
    if (has_waves_) engine_.in_waves_.push_back(this);
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // MPI cannot take back a send, nor reliably a receive: what is left keeps its bytes, for ever. While an exception is
  // under way it is the cause, which abandon() tells the peers.
  ~Transfers() override {
    try {
      if (done()) return;
    } catch (const Error&) {  // recorded
    }
    if (has_waves_) std::erase(engine_.in_waves_, this);
    const Error error = engine_.error(
        ErrorCode::peer_lost,
        fmt::format("worker {} ended during a transfer, or cancelled it; restart the job", engine_.rank()));
    std::uncaught_exceptions() > 0 ? engine_.record_before_cause(error) : engine_.record(error);
  }

  bool done() override {
    while (!pieces_.empty()) {
      int complete = 0;
      MPI_Status status;
      const int return_code = MPI_Test(&pieces_.back().request, &complete, &status);
      const Piece piece = pieces_.back();
      if (return_code != MPI_SUCCESS || complete) pieces_.pop_back();
      engine_.require(return_code, "a transfer");
      if (!complete) return false;
      if (!piece.is_send) require_length(piece, status);
      if (!held_back_.empty()) post_sends();
    }
    if (!std::exchange(is_done_, true) && !is_quiet_) --in_flight_;
    return true;
  }

  std::vector<int> missing() override {
    if (asks_around_) return engine_.absent_from(*collective_);
    const std::set<int> peers = unfinished();
    return {peers.begin(), peers.end()};
  }

  std::optional<int> gone() override {
    if (!engine_.any_has_ended_.load(std::memory_order_acquire)) return std::nullopt;
    for (const int peer : unfinished())
      if (engine_.has_ended(peer)) return peer;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 30;  // MPI counts in int: longer blocks travel in pieces
  struct Piece {
    MPI_Request request;
    int peer;
    bool is_send;
    int length, wave;
  };

  std::set<int> unfinished() {
    std::set<int> peers;
    for (Piece& piece : pieces_) {
      int complete = 0;
      if (MPI_Request_get_status(piece.request, &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS || !complete)
        peers.insert(piece.peer);
    }
    return peers;
  }

  // An empty block is a message too.
  template <typename Span, typename Post>
  void in_pieces(const Transfer& transfer, Span bytes, const Post& post, std::string_view what) {
    do {
      const Span piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      const int length = static_cast<int>(piece.size());
      MPI_Request request = MPI_REQUEST_NULL;
      engine_.require(post(piece.data(), length, MPI_BYTE, transfer.peer, tag_, communicator_, &request), what);
      pieces_.push_back({request, transfer.peer, transfer.is_send, length, transfer.wave});
      bytes = bytes.subspan(piece.size());
    } while (!bytes.empty());
  }

  // Of those that are held back, the sends for whose wave all receives have come.
  void post_sends() {
    const auto earliest = std::ranges::find(pieces_.rbegin(), pieces_.rend(), false, &Piece::is_send);
    const int wave = earliest == pieces_.rend() ? std::numeric_limits<int>::max() : earliest->wave;
    const auto end = std::ranges::find_if(held_back_, [&](const Transfer& transfer) { return transfer.wave > wave; });
    for (auto transfer = held_back_.begin(); transfer != end; ++transfer) {
      in_pieces(*transfer, transfer->send, MPI_Isend, "posting a send");
      if (transfer->peer != engine_.rank()) engine_.count_sent(transfer->send.size());
    }
    held_back_.erase(held_back_.begin(), end);
    if (has_waves_ && held_back_.empty()) std::erase(engine_.in_waves_, this);
  }

  // MPI reports blocks that are too long; one that is too short would leave old numbers behind it.
  void require_length(const Piece& piece, const MPI_Status& status) {
    int length = 0;
    engine_.require(MPI_Get_count(&status, MPI_BYTE, &length), "reading a length");
    if (length == piece.length) return;
    engine_.fail(
        engine_.error(ErrorCode::mismatch,
                      fmt::format("worker {} expected {} bytes and worker {} sent {}; give every worker the same sizes",
                                  engine_.rank(), piece.length, piece.peer, length)));
  }

  MpiEngine& engine_;
  std::atomic<int>& in_flight_;
  const MPI_Comm communicator_;
  const Tag tag_;
  const std::optional<std::uint64_t> collective_;
  const bool is_quiet_;
  std::vector<Transfer> held_back_;  // sends, the earliest waves first
  const bool asks_around_;           // who does not send may wait for somebody else
  bool has_waves_ = false;           // some were held back at first
  std::vector<Piece> pieces_;        // those not known to be done
  bool is_done_ = false;
};

}  // namespace flockstep::engines::mpi
