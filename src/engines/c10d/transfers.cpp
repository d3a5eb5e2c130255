#include "engines/c10d/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/partition.h"

namespace flockstep::engines::c10d {
namespace {

constexpr std::size_t kHeadBytes = 1024, kFirstBytes = kHeadBytes - sizeof(std::uint64_t);
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
    : heads_(std::make_unique_for_overwrite<std::byte[]>(transfers.size() * kHeadBytes)) {
  pieces_.reserve(2 * transfers.size());
  const Way way{lanes, static_cast<std::size_t>(number) % lanes.size(), head_tag(kind, number)};
  std::byte* head = heads_.get();
  for (const bool sends : {false, true})
    for (const Transfer& transfer : transfers) {
      if (transfer.is_send != sends) continue;
      lost = transfer.peer;
      if (sends)
        post_send(way, transfer, {head, kHeadBytes});
      else
        post_receive(way, transfer, {head, kHeadBytes});
      head += kHeadBytes;
    }
}

void Transfers::post_receive(const Way& way, const Transfer& transfer, Bytes head) {
  const Bytes block = transfer.receive;
  const int peer = transfer.peer;
  const bool has_rest = block.size() > kFirstBytes;
  pieces_.push_back({peer, false, !has_rest, head, block, way.lanes[way.first]->receive(peer, way.tag, head)});
  if (!has_rest) return;
  const Bytes rest = block.subspan(kFirstBytes);
  const Tag tag = rest_tag(way.tag, rest.size());
  in_pieces(rest.size(), way.lanes, way.first, [&](Lane& lane, std::size_t begin, std::size_t size, bool is_last) {
    pieces_.push_back({peer, false, is_last, {}, block, lane.receive(peer, tag, rest.subspan(begin, size))});
  });
}

void Transfers::post_send(const Way& way, const Transfer& transfer, Bytes head) {
  const ConstBytes block = transfer.send;
  const int peer = transfer.peer;
  const bool has_rest = block.size() > kFirstBytes;
  const ConstBytes first = has_rest ? block.first(kFirstBytes) : block;
  const std::uint64_t length = block.size();
  std::memcpy(head.data(), &length, sizeof length);
  std::ranges::copy(first, head.data() + sizeof length);
  head = head.first(sizeof length + first.size());
  pieces_.push_back({peer, true, !has_rest, {}, {}, way.lanes[way.first]->send(peer, way.tag, head)});
  if (!has_rest) return;
  const ConstBytes rest = block.subspan(kFirstBytes);
  const Tag tag = rest_tag(way.tag, rest.size());
  in_pieces(rest.size(), way.lanes, way.first, [&](Lane& lane, std::size_t begin, std::size_t size, bool is_last) {
    pieces_.push_back({peer, true, is_last, {}, {}, lane.send(peer, tag, rest.subspan(begin, size))});
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
