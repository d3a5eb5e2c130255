#include "engines/c10d/transfers.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/partition.h"

namespace flockstep::engines::c10d {
namespace {

constexpr std::size_t kHeadBytes = 1024, kFirstBytes = kHeadBytes - sizeof(std::uint64_t);
constexpr int kAllWaves = std::numeric_limits<int>::max();
constexpr std::size_t kLargeBytes = std::size_t{4} << 20;  // per lane

// 31 bits: the kind, head or rest, 21 of the number, 8 that depend on the length of the rest.
static_assert(kMaximalTag < (1 << 21));

Tag head_tag(Kind kind, Tag number) { return static_cast<Tag>(kind) << 30 | number; }

Tag rest_tag(Tag head, std::size_t length) {
  const auto mixed = static_cast<Tag>((length * 0x9E3779B97F4A7C15u) >> 56);
  return head | 1 << 29 | mixed << 21;
}

// Calls post(lane, begin, size, is_last) for the pieces of the rest of a block: one, or as many as there are lanes.
template <typename Post>
void in_pieces(std::size_t size, const Lanes& lanes, std::size_t first, const Post& post) {
  const std::size_t count = std::min(lanes.size(), size / kLargeBytes + 1);
  const base::Partition pieces(size, count);
  for (std::size_t i = 0; i < count; ++i)
    post(*lanes[(first + i) % lanes.size()], pieces.begin(i), pieces.size(i), i + 1 == count);
}

}  // namespace

Transfers::Transfers(const Lanes& lanes, Kind kind, Tag number, std::span<const Transfer> transfers, int& lost)
    : way_{lanes, static_cast<std::size_t>(number) % lanes.size(), head_tag(kind, number)},
      held_back_(transfers.begin(), transfers.end()),
      heads_(std::make_unique_for_overwrite<std::byte[]>(transfers.size() * kHeadBytes)) {
  pieces_.reserve(2 * transfers.size());
  std::ranges::stable_sort(held_back_, {}, &Transfer::wave);
  int earliest = kAllWaves;
  for (const Transfer& transfer : held_back_) {
    if (transfer.is_send) continue;
    lost = transfer.peer;
    post_receive(transfer);
    earliest = std::min(earliest, transfer.wave);
  }
  std::erase_if(held_back_, [](const Transfer& transfer) { return !transfer.is_send; });
  post_sends(earliest, lost);
}

bool Transfers::post_sends_after(std::size_t piece, int& lost) {
  if (held_back_.empty()) return true;
  const bool is_receive_next = piece + 1 < pieces_.size() && !pieces_[piece + 1].is_send;
  const std::lock_guard lock(mutex_);
  if (is_aborted_) return false;
  post_sends(is_receive_next ? pieces_[piece + 1].wave : kAllWaves, lost);
  return true;
}

void Transfers::post_sends(int wave, int& lost) {
  const auto end = std::ranges::find_if(held_back_, [&](const Transfer& transfer) { return transfer.wave > wave; });
  for (auto transfer = held_back_.begin(); transfer != end; ++transfer) {
    lost = transfer->peer;
    post_send(*transfer);
  }
  held_back_.erase(held_back_.begin(), end);
}

Bytes Transfers::next_head() { return {heads_.get() + kHeadBytes * heads_used_++, kHeadBytes}; }

void Transfers::post_receive(const Transfer& transfer) {
  const Bytes head = next_head();
  const Bytes block = transfer.receive;
  const int peer = transfer.peer;
  const bool has_rest = block.size() > kFirstBytes;
  pieces_.push_back(
      {peer, transfer.wave, false, !has_rest, head, block, way_.lanes[way_.first]->receive(peer, way_.tag, head)});
  if (!has_rest) return;
  const Bytes rest = block.subspan(kFirstBytes);
  const Tag tag = rest_tag(way_.tag, rest.size());
  in_pieces(rest.size(), way_.lanes, way_.first, [&](Lane& lane, std::size_t begin, std::size_t size, bool is_last) {
    pieces_.push_back(
        {peer, transfer.wave, false, is_last, {}, block, lane.receive(peer, tag, rest.subspan(begin, size))});
  });
}

void Transfers::post_send(const Transfer& transfer) {
  Bytes head = next_head();
  const ConstBytes block = transfer.send;
  const int peer = transfer.peer;
  const bool has_rest = block.size() > kFirstBytes;
  const ConstBytes first = has_rest ? block.first(kFirstBytes) : block;
  const std::uint64_t length = block.size();
  std::memcpy(head.data(), &length, sizeof length);
  std::ranges::copy(first, head.data() + sizeof length);
  head = head.first(sizeof length + first.size());
  pieces_.push_back({peer, transfer.wave, true, !has_rest, {}, {}, way_.lanes[way_.first]->send(peer, way_.tag, head)});
  if (!has_rest) return;
  const ConstBytes rest = block.subspan(kFirstBytes);
  const Tag tag = rest_tag(way_.tag, rest.size());
  in_pieces(rest.size(), way_.lanes, way_.first, [&](Lane& lane, std::size_t begin, std::size_t size, bool is_last) {
    pieces_.push_back({peer, transfer.wave, true, is_last, {}, {}, lane.send(peer, tag, rest.subspan(begin, size))});
  });
}

std::uint64_t Transfers::unpack(const Piece& piece) {
  std::uint64_t length = 0;
  std::memcpy(&length, piece.head.data(), sizeof length);
  if (length == piece.block.size())
    std::ranges::copy(piece.head.subspan(sizeof length, std::min(piece.block.size(), kFirstBytes)), piece.block.data());
  return length;
}

void Transfers::abort() noexcept {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  for (const Piece& piece : pieces_)
    if (piece.transit) piece.transit->abort();
}

void Transfers::end(bool complete) noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (Piece& piece : pieces_) piece.transit.reset();
  }
  complete_.store(complete, std::memory_order_release);
  ended_.store(true, std::memory_order_release);
}

}  // namespace flockstep::engines::c10d
