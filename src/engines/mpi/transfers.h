// One operation of the mpi engine: sends and receives that are tested until all are done.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "engines/mpi/engine.h"

namespace flockstep::engines::mpi {

// The sends and receives of one operation. MPI runs them all whenever any is tested, so done() tests one at a time.
class MpiEngine::Transfers final : public Operation {
 public:
  Transfers(MpiEngine& engine, std::size_t pieces) : engine_(engine), in_flight_(engine.in_flight()) {
    pieces_.reserve(pieces);
    ++in_flight_;
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // MPI cannot take back a send, nor reliably a receive: what is left keeps its bytes, for ever.
  ~Transfers() override {
    try {
      if (done()) return;
    } catch (const Error&) {  // recorded
    }
    engine_.record(engine_.error(
        ErrorCode::deadline,
        fmt::format("worker {}: a transfer was given up before it was done; restart the job", engine_.rank())));
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
    }
    if (!std::exchange(is_done_, true)) --in_flight_;
    return true;
  }

  std::vector<int> missing() override {
    std::set<int> peers;
    for (Piece& piece : pieces_) {
      int complete = 0;
      if (MPI_Request_get_status(piece.request, &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS || !complete)
        peers.insert(piece.peer);
    }
    return {peers.begin(), peers.end()};
  }

  std::optional<int> gone() override {
    if (!engine_.any_has_ended_.load(std::memory_order_acquire)) return std::nullopt;
    for (const int peer : missing())
      if (engine_.has_ended(peer)) return peer;
    return std::nullopt;
  }

  void post_receive(MPI_Comm communicator, int peer, Tag tag, Bytes bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    engine_.require(
        MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer, tag, communicator, &request),
        "posting a receive");
    pieces_.push_back({request, peer, false, static_cast<int>(bytes.size())});
  }

  void post_send(MPI_Comm communicator, int peer, Tag tag, ConstBytes bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    engine_.require(
        MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer, tag, communicator, &request),
        "posting a send");
    pieces_.push_back({request, peer, true, static_cast<int>(bytes.size())});
  }

 private:
  struct Piece {
    MPI_Request request;
    int peer;
    bool is_send;
    int length;
  };

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
  std::vector<Piece> pieces_;  // those not known to be done
  bool is_done_ = false;
};

}  // namespace flockstep::engines::mpi
