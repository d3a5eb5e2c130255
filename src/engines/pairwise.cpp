#include "engines/pairwise.h"

#include "base/check.h"
#include "engines/own_block.h"

namespace flockstep::engines {
Pending PairwiseEngine::all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> receive, Traffic) {
  const int self = rank(), count = size();
  base::check(send.size() == static_cast<std::size_t>(count) && receive.size() == send.size(), "a block per worker");
  copy_own_block(send[static_cast<std::size_t>(self)], receive[static_cast<std::size_t>(self)]);
  std::vector<Transfer> transfers;
  transfers.reserve(2 * send.size());
  for (int distance = 1; distance < count; ++distance) {
    const int from = (self + count - distance) % count, to = (self + distance) % count;
    transfers.push_back({from, false, {}, receive[static_cast<std::size_t>(from)]});
    transfers.push_back({to, true, send[static_cast<std::size_t>(to)], {}});
  }
  return count_and_start(transfers);
}

Pending PairwiseEngine::all_gather(ConstBytes mine, std::span<const Bytes> receive, Traffic traffic) {
  const std::vector<ConstBytes> send(static_cast<std::size_t>(size()), mine);
  return all_to_all(send, receive, traffic);
}

void PairwiseEngine::check_message(int peer, Tag tag) const {
  base::check(peer >= 0 && peer < size() && tag >= 0 && tag <= kMaximalTag, "a peer and a tag within bounds");
}

void PairwiseEngine::check_control(int peer, ConstBytes payload) const {
  base::check(peer >= 0 && peer < size() && payload.size() <= kControlBytes, "a peer and a control message in bounds");
}

Pending PairwiseEngine::count_and_start(std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers)
    if (transfer.is_send) bytes_sent_in_collectives_ += transfer.send.size();
  return start_collective(transfers);
}

}  // namespace flockstep::engines
