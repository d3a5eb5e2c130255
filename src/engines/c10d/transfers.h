// The sends and receives of one operation, shared by it and by the thread that waits for them.
//
// Each transfer is one message, or two. The head says how long the whole is, since Gloo itself ends the process over a
// block that is too long and is silent about one that is too short; and it carries the first bytes, which is all there
// is of a small block. The rest travels beside it, under a tag that depends on its length: ends that disagree never
// meet.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engines/c10d/lane.h"
#include "engines/pairwise.h"

namespace flockstep::engines::c10d {

// What tells operations apart: collectives by their number, messages by their tag.
enum class Kind : Tag { collective = 0, message = 1 };

class Transfers {
 public:
  // Posts all transfers but for sends of later waves, receives first: a block that finds its place waiting sets out at
  // once. `lost` is the peer in question when it throws.
  Transfers(const Lanes& lanes, Kind kind, Tag number, std::span<const Transfer> transfers, int& lost);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  struct Piece {  // of a block
    int peer, wave;
    bool is_send, ends_transfer;
    Bytes head;                        // of a received block, and empty otherwise
    Bytes block;                       // the received one
    std::shared_ptr<Transit> transit;  // null once it has passed
  };
  // For the waiting thread alone, until end(): receives, the earliest waves first, then sends.
  std::vector<Piece>& pieces() { return pieces_; }
  // To be called when the pieces up to this one have passed: posts the sends that may set out now, behind all others.
  // False if aborted. Throws as the constructor does.
  bool post_sends_after(std::size_t piece, int& lost);
  // The peer whose piece is waited for; -1 where none is. What comes after it is not looked at yet.
  std::atomic<int>& awaited() { return awaited_; }
  // The length that a received head tells, once its first bytes are in their place; nothing is placed if it is wrong.
  static std::uint64_t unpack(const Piece& piece);

  void abort() noexcept;
  // Nobody touches the bytes any more.
  void end(bool complete) noexcept;
  bool complete() const { return complete_.load(std::memory_order_acquire); }
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  struct Way {  // of one operation
    const Lanes& lanes;
    std::size_t first;  // of the lanes, that of heads
    Tag tag;            // of heads
  };
  void post_sends(int wave, int& lost);  // up to this one
  void post_receive(const Transfer& transfer);
  void post_send(const Transfer& transfer);
  Bytes next_head();

  const Way way_;
  std::vector<Transfer> held_back_;  // sends, the earliest waves first
  std::unique_ptr<std::byte[]> heads_;
  std::size_t heads_used_ = 0;
  std::mutex
      mutex_;  // of the list of pieces and their transits, which one thread may abort while another adds or ends some
  bool is_aborted_ = false;
  std::vector<Piece> pieces_;
  std::atomic<bool> complete_ = false, ended_ = false;
  std::atomic<int> awaited_ = -1;
};

}  // namespace flockstep::engines::c10d
