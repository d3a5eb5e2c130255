#include "engines/c10d/exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace flockstep::engines::c10d {
namespace {

constexpr std::size_t kHeadBytes = 1024, kFirstBytes = kHeadBytes - sizeof(std::uint64_t);

// 31 bits: the kind, head or rest, 21 of the number, 8 that depend on the length of the rest.
static_assert(kMaximalTag < (1 << 21));

Tag head_tag(Kind kind, Tag number) { return static_cast<Tag>(kind) << 30 | number; }

Tag rest_tag(Tag head, std::size_t length) {
  const auto mixed = static_cast<Tag>((length * 0x9E3779B97F4A7C15u) >> 56);
  return head | 1 << 29 | mixed << 21;
}

}  // namespace

Exchange::Exchange(Lane& lane, Kind kind, Tag number, std::span<const Transfer> transfers, int& lost)
    : heads_(std::make_unique_for_overwrite<std::byte[]>(transfers.size() * kHeadBytes)) {
  parts_.reserve(2 * transfers.size());
  const Tag tag = head_tag(kind, number);
  std::byte* head = heads_.get();
  for (const bool sends : {false, true})
    for (const Transfer& transfer : transfers) {
      if (transfer.is_send != sends) continue;
      lost = transfer.peer;
      if (sends)
        post_send(lane, tag, transfer, {head, kHeadBytes});
      else
        post_receive(lane, tag, transfer, {head, kHeadBytes});
      head += kHeadBytes;
    }
}

void Exchange::post_receive(Lane& lane, Tag tag, const Transfer& transfer, Bytes head) {
  const Bytes block = transfer.receive;
  const bool has_rest = block.size() > kFirstBytes;
  parts_.push_back({transfer.peer, false, !has_rest, head, block, lane.receive(transfer.peer, tag, head)});
  if (!has_rest) return;
  const Bytes rest = block.subspan(kFirstBytes);
  parts_.push_back(
      {transfer.peer, false, true, {}, block, lane.receive(transfer.peer, rest_tag(tag, rest.size()), rest)});
}

void Exchange::post_send(Lane& lane, Tag tag, const Transfer& transfer, Bytes head) {
  const ConstBytes block = transfer.send;
  const bool has_rest = block.size() > kFirstBytes;
  const ConstBytes first = has_rest ? block.first(kFirstBytes) : block;
  const std::uint64_t length = block.size();
  std::memcpy(head.data(), &length, sizeof length);
  std::ranges::copy(first, head.data() + sizeof length);
  head = head.first(sizeof length + first.size());
  parts_.push_back({transfer.peer, true, !has_rest, {}, {}, lane.send(transfer.peer, tag, head)});
  if (!has_rest) return;
  const ConstBytes rest = block.subspan(kFirstBytes);
  parts_.push_back({transfer.peer, true, true, {}, {}, lane.send(transfer.peer, rest_tag(tag, rest.size()), rest)});
}

std::uint64_t Exchange::unpack(const Part& part) {
  std::uint64_t length = 0;
  std::memcpy(&length, part.head.data(), sizeof length);
  if (length == part.block.size())
    std::ranges::copy(part.head.subspan(sizeof length, std::min(part.block.size(), kFirstBytes)), part.block.data());
  return length;
}

void Exchange::abort() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Part& part : parts_)
    if (part.transit) part.transit->abort();
}

void Exchange::end(bool complete) noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (Part& part : parts_) part.transit.reset();
  }
  complete_.store(complete, std::memory_order_release);
  ended_.store(true, std::memory_order_release);
}

}  // namespace flockstep::engines::c10d
